// How the scripts run programs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** The folder of this project. */
export const root = fileURLToPath(new URL('..', import.meta.url));

/** Runs a command, by default in `root`. If it fails, shows its output and throws. */
export async function run(command, args, options) {
  const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], ...options });
  const stdout = [];
  const shown = [];
  child.stdout?.on('data', (data) => stdout.push(data));
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (data) => shown.push(data));
  const [code, signal] = await once(child, 'close');
  if (code === 0) return stdout.join('');
  process.stderr.write(shown.join(''));
  // A program that has done its work but does not end runs into the timeout: a failure too.
  throw new Error(`${command} ${args.join(' ')}: ${signal ?? `exit code ${code}`}`);
}
