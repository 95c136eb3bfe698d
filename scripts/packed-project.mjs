// A project of its own with the package installed as a user gets it: packed, not linked.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Folder of this project. */
export const root = fileURLToPath(new URL('..', import.meta.url));

/** Runs a command, shows its output only where it fails, and throws then. */
export function run(command, args, options) {
  const result = spawnSync(command, args, { stdio: ['ignore', 'pipe', 'inherit'], ...options });
  if (result.status === 0) return String(result.stdout);
  process.stderr.write(result.stdout ?? '');
  // A program that has done its work and does not end is stopped by the timeout: a failure too.
  const how = result.error?.message ?? result.signal ?? `exit code ${result.status}`;
  throw new Error(`${command} ${args.join(' ')}: ${how}`);
}

/** Packs the package, installs it beside `packages` in an empty folder, and calls `use` with it. */
export function withPackedProject(packages, use) {
  const folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-packed-'));
  try {
    run('npm', ['pack', '--loglevel=error', '--pack-destination', folder], { cwd: root });
    const [filename] = readdirSync(folder);
    writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
    const quiet = ['--no-audit', '--no-fund', '--loglevel=error'];
    run('npm', ['install', ...quiet, `./${filename}`, ...packages], { cwd: folder });
    use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
