// Builds the simulation and runs its command line: see cli.ts. With --narrow, a process makes one
// first attempt at a time: no universe has so many calls that one would wait for room otherwise.
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { build } from './build.mjs';

const narrow = {
  file: 'lib/core/first-attempts.ts',
  find: 'UNDER_WAY_MAX = 2_048;',
  replace: 'UNDER_WAY_MAX = 1;',
};

const folder = await build(process.argv.includes('--narrow') ? [narrow] : []);
await import(pathToFileURL(join(folder, 'test/simulation/cli.js')).href);
