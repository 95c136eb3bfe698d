// npm run torture -- --duration 600 --seed 7 [--quarantine off]
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { checkRun } from './history-check.js';
import { describeResult, describeRound } from './torture-report.js';
import { runTorture } from './torture-run.js';

const { values } = parseArgs({
  options: {
    duration: { type: 'string', default: '60' },
    seed: { type: 'string', default: `${Date.now() % 100_000}` },
    quarantine: { type: 'string', default: 'on' },
  },
});
const seed = Number(values.seed);
const seconds = Number(values.duration);
if (!Number.isInteger(seed) || !(seconds > 0)) {
  throw new RangeError('Expected --seed to be an integer, and --duration to be a number of s');
}

console.log(`seed ${seed}, ${seconds} s`);
const result = await runTorture({
  duration: seconds * 1_000,
  seed,
  isQuarantined: values.quarantine !== 'off',
  workerScript: fileURLToPath(new URL('worker.js', import.meta.url)),
  onRound: (round) => console.log(describeRound(round)),
});
const violations = checkRun(result);
console.log(describeResult(result, violations));
if (violations.length === 0) rmSync(result.folder, { recursive: true });
else process.exitCode = 1;
