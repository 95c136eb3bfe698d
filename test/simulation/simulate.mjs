// Builds the simulation and runs its command line: see cli.ts.
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { build } from './build.mjs';

await import(pathToFileURL(join(await build(), 'test/simulation/cli.js')).href);
