// Node reads a file's module format from the nearest package.json: each output names its own.
import { writeFileSync } from 'node:fs';

for (const [folder, type] of [
  ['esm', 'module'],
  ['cjs', 'commonjs'],
]) {
  const place = new URL(`../dist/${folder}/package.json`, import.meta.url);
  writeFileSync(place, `${JSON.stringify({ type }, null, 2)}\n`);
}
