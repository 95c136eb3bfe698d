// Builds the explorer, or one of a mutant, and runs its command line: see cli.ts.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from '../build.mjs';

const load = (folder, file) =>
  import(pathToFileURL(join(folder, 'test/simulation/explore', file)).href);

const folder = await build();
const place = process.argv.indexOf('--mutant');
if (place < 0) await load(folder, 'cli.js');
else {
  const [, name] = process.argv.splice(place, 2);
  const { mutantNamed } = await load(folder, 'liveness-mutants.js');
  const broken = await build(mutantNamed(name).patches);
  await load(broken, 'cli.js');
  rmSync(broken, { recursive: true, force: true });
}
