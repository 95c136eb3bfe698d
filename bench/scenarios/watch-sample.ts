// What a process and the servers do in a while in which nobody calls, as a sample.
import type { RedisMeter } from '../measure/redis-meter.js';
import type { CandidateProcess } from '../processes/candidate-process.js';
import type { WatchResult } from '../tasks/kept-locks.js';
import type { BenchContext, Metric, Sample } from './scenario.js';

/** How many servers are watched. */
export const NODES = 3;

const LIMIT = 15_000;

export const watchMetrics: readonly Metric[] = [
  { key: 'cpu', label: 'CPU of one core', unit: '%' },
  { key: 'commands', label: 'commands per second to each node', unit: '/s' },
  { key: 'redisCpu', label: 'redis CPU, each node', unit: '%' },
  { key: 'delayP50', label: 'event-loop delay p50', unit: 'ms' },
  { key: 'delayP99', label: 'event-loop delay p99', unit: 'ms' },
];

/**
 * Commands are counted in a time of their own, whose result comes along: counting would add to the
 * CPU of those that send many.
 */
export async function watchSample(
  { pace: { seconds } }: BenchContext,
  process: CandidateProcess,
  meter: RedisMeter,
): Promise<{ readonly sample: Sample; readonly counted: WatchResult }> {
  const limit = seconds * 1_000 + LIMIT;
  const before = await meter.read();
  const { cpu, delayP50, delayP99, duration } = await process.run(
    'watch',
    { seconds, isCounted: false },
    limit,
  );
  const after = await meter.read();
  const counted = await process.run('watch', { seconds, isCounted: true }, limit);
  const sample = {
    cpu: (cpu / duration) * 100,
    commands: (counted.wire.commands / counted.duration / NODES) * 1_000,
    redisCpu: ((after.cpu - before.cpu) / duration / NODES) * 100,
    delayP50,
    delayP99,
  };
  return { sample, counted };
}
