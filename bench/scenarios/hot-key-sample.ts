// One measurement of a hot resource, over one process or several, as a sample.
import { distributionOf } from '../measure/statistics.js';
import { usualSettings, type Team } from './turns.js';
import type { HotKeyResult, HotKeyTask } from '../tasks/hot-key.js';
import type { BenchContext, Metric, Sample } from './scenario.js';

/** Nobody gives up within a round. */
export const hotKeySettings = { ...usualSettings, patience: 10_000 };

/** `ideal`: the time for all callers once in turn, each inside for as long as it really was. */
export const hotKeyMetrics: readonly Metric[] = [
  { key: 'rate', label: 'acquisitions per second', unit: '/s' },
  { key: 'waitP50', label: 'wait p50', unit: 'ms' },
  { key: 'waitP99', label: 'wait p99', unit: 'ms' },
  { key: 'waitMax', label: 'wait max', unit: 'ms' },
  { key: 'ideal', label: 'ideal wait (callers x section)', unit: 'ms' },
  { key: 'fairness', label: 'fairness (fewest / most)', unit: '' },
  { key: 'commands', label: 'commands on the wire per acquisition', unit: '' },
  { key: 'overlaps', label: 'overlaps', unit: '' },
];

/** Whether a process is left out: the callers of the others may be fair to each other. */
export const fewestMetric: Metric = {
  key: 'fewest',
  label: 'of the process with the fewest, per second',
  unit: '/s',
};

const LIMIT = 20_000;

let runs = 0;

/**
 * Lets all processes compete for the same resource, another one in each run: what hanging callers
 * left behind must not spoil the next round. Throws if nobody got it.
 */
export async function hotKeySample(
  { isQuick, pace }: BenchContext,
  { name, processes }: Team,
  load: Pick<HotKeyTask, 'callers' | 'section' | 'stateUrl'>,
): Promise<Sample> {
  const task = {
    ...load,
    resource: `hot:${name}:${(runs += 1)}`,
    seconds: pace.seconds,
    grace: isQuick ? 1_000 : 2_500,
  };
  const limit = task.seconds * 1_000 + LIMIT;
  const results = await Promise.all(processes.map((process) => process.run('hotKey', task, limit)));
  const total = (of: (result: HotKeyResult) => number): number => sum(results.map(of));
  const perCaller = results.flatMap((result) => result.perCaller);
  const perProcess = results.map((result) => sum(result.perCaller));
  const counted = sum(perProcess);
  if (counted === 0) {
    const why = results.find(({ firstError }) => firstError !== null)?.firstError;
    throw new Error(`No acquisition within ${task.seconds} s: ${why ?? 'all callers hang'}`);
  }
  const waits = distributionOf(results.flatMap((result) => result.waits));
  const errors = total((result) => result.errors);
  const stuck = total((result) => result.stuck);
  return {
    rate: counted / task.seconds,
    fewest: Math.min(...perProcess) / task.seconds,
    waitP50: waits.p50,
    waitP99: waits.p99,
    waitMax: waits.max,
    ideal: (perCaller.length * total((result) => result.inside)) / counted,
    fairness: Math.min(...perCaller) / Math.max(...perCaller),
    commands: total((result) => result.wire.commands) / total((result) => result.acquisitions),
    overlaps: total((result) => result.overlaps),
    ...(errors + stuck === 0 ? {} : { errors, stuck }),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
