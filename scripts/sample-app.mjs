// Starts the sample app as the README says, for the scripts that send it requests.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

import { root } from './command.mjs';

const START_TIMEOUT = 120_000;

/** Resolves when it listens. It ends with this process at the latest, however that ends. */
export async function startSampleApp() {
  // A group of its own: npm's shell passes no signal on to node; terminals signal a whole group.
  const app = spawn('npm', ['start'], {
    cwd: root,
    env: { ...process.env, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  // 'close' waits for everyone who holds stdout: for node itself, not only for npm.
  const ended = once(app, 'close');
  const signal = (name) => process.kill(-app.pid, name);
  const kill = () => signal('SIGKILL');
  process.once('exit', kill);
  app.once('close', () => process.off('exit', kill));
  // Without these handlers there is no 'exit'.
  for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => process.exit(1));

  const url = await within(START_TIMEOUT, 'listen', listening(app.stdout));
  app.stdout.resume();
  return { url, ended, signal };
}

/** Rejects if the app has not done by then what it should. */
export function within(delay, what, promise) {
  const isLate = new Promise((_resolve, reject) => {
    const late = () => reject(new Error(`The sample app did not ${what} within ${delay} ms.`));
    const timer = setTimeout(late, delay);
    void promise.finally(() => clearTimeout(timer)).catch(() => undefined);
  });
  return Promise.race([promise, isLate]);
}

async function listening(stdout) {
  for await (const line of createInterface(stdout)) {
    console.log(`  ${line}`);
    const [, url] = /listening on (http:\/\/localhost:\d+)/.exec(line) ?? [];
    if (url !== undefined) return url;
  }
  throw new Error('The sample app ended before it listened.');
}
