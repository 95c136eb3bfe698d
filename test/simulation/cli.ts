// npm run simulate -- --seeds 10000 --from 1 | --seed N --trace; either with --narrow
import { parseArgs } from 'node:util';

import { describeFailure, describeSeed, describeTotals } from './report.js';
import { runSeeds } from './run-seeds.js';
import { wholeNumber } from './whole-number.js';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10000' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    trace: { type: 'boolean', default: false },
    failures: { type: 'string', default: '1' },
    narrow: { type: 'boolean', default: false },
  },
});

if (values.seed !== undefined && values.trace) {
  const { text, isClean } = await describeSeed(wholeNumber('seed', values.seed));
  console.log(text);
  process.exitCode = isClean ? 0 : 1;
} else {
  // Errors are part of the simulation; nobody reads their stacks.
  Error.stackTraceLimit = 0;
  const from = wholeNumber('from', values.seed ?? values.from);
  const count = values.seed === undefined ? wholeNumber('seeds', values.seeds) : 1;
  const startedAt = performance.now();
  const totals = await runSeeds(from, count, wholeNumber('failures', values.failures));
  console.log(describeTotals(totals, (performance.now() - startedAt) / 1_000));
  const [first, ...others] = totals.failures;
  if (first !== undefined) {
    console.log(await describeFailure(first));
    const narrow = values.narrow ? ' --narrow' : '';
    console.log(`replay: npm run simulate -- --seed ${first.seed} --trace${narrow}`);
  }
  for (const { seed, findings } of others) {
    console.log(`seed ${seed}: ${findings[0]?.check}: ${findings[0]?.message}`);
  }
  process.exitCode = first === undefined ? 0 : 1;
}
