// Runs the sample app as the README says (`npm start`, no Redis), asks it, and stops it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

const START_TIMEOUT = 120_000;
const STOP_TIMEOUT = 10_000;

function within(delay, what, promise) {
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

async function ask(url, options) {
  const answer = await fetch(url, { ...options, signal: AbortSignal.timeout(STOP_TIMEOUT) });
  const text = await answer.text();
  const [line] = text.split('\n');
  console.log(`  ${options?.method ?? 'GET'} ${new URL(url).pathname}: ${answer.status} ${line}`);
  if (!answer.ok) throw new Error(`Expected a 2xx status, got ${answer.status}.`);
  return text;
}

// A group of its own: npm's shell passes no signal on to node, a terminal signals the whole group.
const app = spawn('npm', ['start'], {
  env: { ...process.env, PORT: '0' },
  stdio: ['ignore', 'pipe', 'inherit'],
  detached: true,
});
const ended = once(app, 'close');
try {
  const url = await within(START_TIMEOUT, 'listen', listening(app.stdout));
  app.stdout.resume();
  await ask(`${url}/inventory/apple/reserve`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ quantity: 1 }),
  });
  await ask(`${url}/locks/status`);
  const page = await ask(`${url}/`, { headers: { accept: 'text/html' } });
  if (!page.includes('<title>Lock lab')) throw new Error('Expected a browser to get the page.');

  process.kill(-app.pid, 'SIGTERM');
  // 'close' waits for everyone who holds stdout: for node itself, not only for npm.
  await within(STOP_TIMEOUT, 'stop after SIGTERM', ended);
  console.log('  stopped by itself after SIGTERM');
} catch (error) {
  process.kill(-app.pid, 'SIGKILL');
  throw error;
}
