// Runs seeds until one fails, and says which: for a mutant, in a process of its own.
import { runSeeds } from './run-seeds.js';

Error.stackTraceLimit = 0;
const [from = '1', count = '1000'] = process.argv.slice(2);
const { failures, universes } = await runSeeds(Number(from), Number(count), 1);
const [failure] = failures;
console.log(
  JSON.stringify({
    universes,
    seed: failure?.seed ?? null,
    finding: failure?.findings[0] ?? null,
  }),
);
