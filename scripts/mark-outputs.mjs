// Node reads a file's module format from the nearest package.json: each output names its own.
// Only there do bundlers read that they may leave out what is not used.
import { readFileSync, writeFileSync } from 'node:fs';

const { sideEffects } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url)));

for (const [folder, type] of [
  ['esm', 'module'],
  ['cjs', 'commonjs'],
]) {
  const place = new URL(`../dist/${folder}/package.json`, import.meta.url);
  writeFileSync(place, `${JSON.stringify({ type, sideEffects }, null, 2)}\n`);
}
