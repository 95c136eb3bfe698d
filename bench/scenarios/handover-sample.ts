// Hand-overs from a process that releases to another that waits, as a sample.
import { pause } from '../measure/pause.js';
import { distributionOf } from '../measure/statistics.js';
import type { CandidateProcess } from '../processes/candidate-process.js';
import type { TakeResult } from '../tasks/handover.js';
import type { Metric, Sample } from './scenario.js';

export const handOverMetrics: readonly Metric[] = [
  { key: 'p50', label: 'p50', unit: 'ms' },
  { key: 'p99', label: 'p99', unit: 'ms' },
  { key: 'max', label: 'max', unit: 'ms' },
  { key: 'count', label: 'hand-overs', unit: '' },
];

/** For a call that takes or gives a lock, in ms. */
export const HAND_OVER_LIMIT = 15_000;

/** The two processes of a hand-over. */
export function pairOf(
  processes: readonly CandidateProcess[],
): [holder: CandidateProcess, waiter: CandidateProcess] {
  const [holder, waiter] = processes;
  if (holder === undefined || waiter === undefined) throw new Error('Expected two processes');
  return [holder, waiter];
}

/**
 * Lets `holder` release what another process waits for. Returns the time from the call of `release`
 * to the acquisition, in ms, on the clock that both share. The release comes at a random time, so
 * that no poll is in step with it.
 */
export async function handOverOnce(
  holder: CandidateProcess,
  resource: string,
  taken: Promise<TakeResult>,
): Promise<number> {
  await pause(5 + Math.random() * 20);
  const [{ acquiredAt }, { releasedAt }] = await Promise.all([
    taken,
    holder.run('give', { resource }, HAND_OVER_LIMIT),
  ]);
  return acquiredAt - releasedAt;
}

/** On one clock, an acquisition before the release means two holders at once. */
export function handOverSample(times: readonly number[]): Sample {
  const early = times.filter((time) => time < 0).length;
  const { count, max, p50, p99 } = distributionOf(times);
  return { count, max, p50, p99, ...(early > 0 ? { overlaps: early } : {}) };
}
