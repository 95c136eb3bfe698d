// Builds the simulation and runs its command line: see cli.ts. With --narrow, a process makes one
// first attempt at a time: no universe has so many calls that one would wait for room otherwise.
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { build } from './build.mjs';

const load = (folder, file) => import(pathToFileURL(join(folder, 'test/simulation', file)).href);

let folder = await build();
if (process.argv.includes('--narrow')) {
  const { narrow } = await load(folder, 'mutant.js');
  folder = await build([narrow]);
}
await load(folder, 'cli.js');
