// Runs every mutant against the simulation: each must be caught. Writes MUTANTS.md.
// With `--check` it begins with the seed that the page names, and fails if it writes another page.
import { spawn } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, root } from './build.mjs';

const SEEDS_MAX = 20_000;
const MS_MAX = 600_000;
const page = join(root, 'test/simulation/MUTANTS.md');

const target = await build();
const load = (file) => import(pathToFileURL(join(target, 'test/simulation', file)).href);
const { mutants } = await load('mutants.js');
const { describeMutants, seedsOn } = await load('mutant-page.js');
const { runSeeds } = await load('run-seeds.js');

const written = readFileSync(page, 'utf8');
const isCheck = process.argv.includes('--check');
const knownSeeds = isCheck ? seedsOn(written) : new Map();

// Without a name: all of them.
const only = process.argv.slice(2).find((argument) => argument !== '--check');
const chosen = mutants.filter(({ name }) => only === undefined || name.includes(only));
if (chosen.length === 0) throw new RangeError(`Expected a part of a mutant's name, got ${only}`);
const results = new Map();
const queue = [...chosen];
await Promise.all(
  Array.from({ length: availableParallelism() }, async () => {
    for (let mutant = queue.shift(); mutant !== undefined; mutant = queue.shift()) {
      const result = await run(mutant);
      results.set(mutant.name, result);
      const { seed, check, message } = result;
      console.log(
        `${seed === null ? 'SURVIVED' : 'killed'} | ${mutant.name} | ${seed} | ${check} | ${message}`,
      );
    }
  }),
);

const survivors = chosen.filter(({ name }) => results.get(name).seed === null);
console.log(`${chosen.length - survivors.length} of ${chosen.length} mutants killed`);
if (survivors.length > 0) process.exitCode = 1;

// A seed that fails without a patch catches nothing.
for (const seed of new Set([...results.values()].map((result) => result.seed))) {
  if (seed === null || (await runSeeds(seed, 1, 1)).failures.length === 0) continue;
  console.error(`Seed ${seed} fails without a patch: npm run simulate -- --seed ${seed}`);
  process.exitCode = 1;
}

if (only === undefined) {
  const text = describeMutants(mutants, results, SEEDS_MAX);
  if (isCheck && written !== text) {
    console.error('test/simulation/MUTANTS.md was out of date; it is written anew: commit it.');
    process.exitCode = 1;
  }
  writeFileSync(page, text);
}

async function run(mutant) {
  const folder = await build(mutant.patches);
  const known = knownSeeds.get(mutant.name);
  let result = known === undefined ? null : await runFrom(folder, known, 1);
  if (result?.seed == null) result = await runFrom(folder, 1, SEEDS_MAX);
  rmSync(folder, { recursive: true, force: true });
  return result;
}

async function runFrom(folder, from, count) {
  const worker = join(folder, 'test/simulation/mutant-worker.js');
  const child = spawn(process.execPath, [worker, `${from}`, `${count}`], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: MS_MAX,
    killSignal: 'SIGKILL',
  });
  const texts = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr']) {
    child[name].setEncoding('utf8').on('data', (chunk) => (texts[name] += chunk));
  }
  await new Promise((resolve) => child.once('close', resolve));
  try {
    const { seed, finding } = JSON.parse(texts.stdout);
    return { seed, check: finding?.check ?? null, message: finding?.message ?? '' };
  } catch {
    // It did not even end: the seed is not known, so it does not count as caught.
    return { seed: null, check: null, message: texts.stderr.slice(0, 300) };
  }
}
