// Makes projects with the package installed as a user gets it: packed, not linked.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { run } from './command.mjs';

/** Packs the package into an empty folder, which is removed when this process ends. */
export async function pack() {
  const folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-packed-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  // Our prepack script builds what is packed; without it an older build would be packed.
  const quiet = ['--loglevel=error', '--ignore-scripts=false'];
  await run('npm', ['pack', ...quiet, '--pack-destination', folder]);
  const [filename] = readdirSync(folder);
  return { folder, packed: join(folder, filename) };
}

/** Makes `place` a project that has the packed package and `packages`. */
export async function install(place, packed, packages) {
  writeFileSync(join(place, 'package.json'), '{ "private": true }\n');
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error'];
  const command = ['install', '--prefer-offline', ...quiet, packed, ...packages];
  await run('npm', command, { cwd: place });
}
