// One measurement of pairs, as a sample: shared by the scenarios without contention.
import type { RedisMeter } from '../measure/redis-meter.js';
import type { CandidateProcess } from '../processes/candidate-process.js';
import type { PairsResult, PairsTask } from '../tasks/pairs.js';
import type { BenchContext, Metric, Sample } from './scenario.js';
import type { Team } from './turns.js';

export const latencyMetrics: readonly Metric[] = [
  { key: 'acquireP50', label: 'acquire p50', unit: 'µs' },
  { key: 'acquireP99', label: 'acquire p99', unit: 'µs' },
  { key: 'releaseP50', label: 'release p50', unit: 'µs' },
  { key: 'releaseP99', label: 'release p99', unit: 'µs' },
];

/** Under a fault, and without it. */
export const faultMetrics: readonly Metric[] = [
  ...latencyMetrics.map(({ key, label, unit }) => ({
    key: `healthy.${key}`,
    label: `healthy: ${label}`,
    unit,
  })),
  ...latencyMetrics,
];

export const wireMetrics: readonly Metric[] = [
  { key: 'commands', label: 'commands on the wire per pair', unit: '' },
  { key: 'bytes', label: 'bytes sent per pair', unit: '' },
];

const RUN_LIMIT = 15_000;

/** Who asks, and how. */
export type PairsLoad = Pick<PairsTask, 'callers'> & Partial<Pick<PairsTask, 'isApart'>>;

/** Lets a candidate run pairs. Throws if not one succeeded. */
export async function runPairs(
  context: BenchContext,
  process: CandidateProcess,
  task: Partial<PairsTask> & Pick<PairsTask, 'callers' | 'prefix'>,
): Promise<PairsResult> {
  const { seconds = context.pace.seconds } = task;
  const usual = { isFresh: context.isFresh, isApart: false, isCounted: false };
  const full = { ...usual, ...task, seconds };
  const result = await process.run('pairs', full, seconds * 1_000 + RUN_LIMIT);
  if (result.completed > 0) return result;
  const why = result.firstError ?? `${result.stuck} of ${task.callers} callers hang`;
  throw new Error(`No pair within ${seconds} s: ${why}`);
}

/** Runs pairs until the compiler has seen enough and everything is connected. */
export function warmUpPairs(
  context: BenchContext,
  { name, process }: Team,
  load: PairsLoad,
): Promise<PairsResult> {
  return runPairs(context, process, {
    ...load,
    prefix: name,
    seconds: context.isQuick ? 0.2 : 3,
  });
}

/** What one pair sends, counted in a run of its own. */
export async function countedPairs(
  context: BenchContext,
  { name, process }: Team,
  load: PairsLoad,
): Promise<Sample> {
  const task = { ...load, prefix: name, seconds: 0.2, isCounted: true };
  const { completed, wire } = await runPairs(context, process, task);
  return { commands: wire.commands / completed, bytes: wire.bytes / completed };
}

/** The latencies, in µs. */
export function latenciesOf({ acquire, release }: PairsResult): Sample {
  return {
    acquireP50: acquire.p50 * 1_000,
    acquireP99: acquire.p99 * 1_000,
    releaseP50: release.p50 * 1_000,
    releaseP99: release.p99 * 1_000,
  };
}

/** What was measured under a fault, beside a measurement without it just before or after. */
export function besideHealthy(faulty: PairsResult, healthy: PairsResult): Sample {
  const latencies = Object.entries(latenciesOf(healthy));
  return {
    ...Object.fromEntries(latencies.map(([key, value]) => [`healthy.${key}`, value])),
    ...latenciesOf(faulty),
    ...troubleOf(faulty),
  };
}

/** Callers that failed or hang; nothing if all is well. */
export function troubleOf({ errors, stuck }: PairsResult): Sample {
  return errors + stuck === 0 ? {} : { errors, stuck };
}

/** Pairs, and what the servers spent on them, in µs. */
export async function meteredPairs(
  context: BenchContext,
  { name, process }: Team,
  meter: RedisMeter,
  load: PairsLoad,
): Promise<Sample> {
  const before = await meter.read();
  const result = await runPairs(context, process, { ...load, prefix: name });
  const after = await meter.read();
  const { completed, cpu, duration } = result;
  return {
    rate: (completed / duration) * 1_000,
    cpu: (cpu / completed) * 1_000,
    redisCpu: ((after.cpu - before.cpu) / completed) * 1_000,
    executed: (after.commands - before.commands) / completed,
    ...latenciesOf(result),
    ...troubleOf(result),
  };
}
