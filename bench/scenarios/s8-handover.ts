import { contenders } from '../candidates/catalogue.js';
import { pause } from '../measure/pause.js';
import { distributionOf } from '../measure/statistics.js';
import { withServers } from './servers.js';
import { takeTurns, usualSettings } from './turns.js';
import type { CandidateProcess } from '../processes/candidate-process.js';
import type { Sample, Scenario } from './scenario.js';

const LIMIT = 15_000;

/**
 * How long does nobody hold a lock that somebody waits for? Measured from the call of `release` in
 * one process to the acquisition in another, on the clock that both share. They swap roles each
 * time, and the release comes at a random time, so that no poll is in step with it.
 */
export const handover: Scenario = {
  id: 'S8',
  title: 'From a release in one process to the acquisition in another, N = 3',
  question: 'How long is a lock nobody’s when somebody waits for it?',
  // With fewer than a few hundred hand-overs, the p99 would be the maximum.
  full: { seconds: 5, rounds: 4 },
  quick: { seconds: 0.5, rounds: 1 },
  metrics: [
    { key: 'p50', label: 'p50', unit: 'ms' },
    { key: 'p99', label: 'p99', unit: 'ms' },
    { key: 'max', label: 'max', unit: 'ms' },
    { key: 'count', label: 'hand-overs', unit: '' },
  ],
  plotted: ['p50', 'p99'],
  run: (context) =>
    withServers(3, async (_servers, urls) => {
      context.log('S8');
      const rows = await takeTurns(context, {
        names: contenders,
        urls,
        settings: { ...usualSettings, patience: 10_000 },
        processCount: 2,
        warmUp: ({ name, processes }) => handOver(processes, `handover:${name}`, 0.3),
        measure: ({ name, processes }) =>
          handOver(processes, `handover:${name}`, context.pace.seconds),
      });
      return [{ title: '', rows }];
    }),
};

async function handOver(
  processes: readonly CandidateProcess[],
  resource: string,
  seconds: number,
): Promise<Sample> {
  let [holder, waiter] = processes;
  if (holder === undefined || waiter === undefined) throw new Error('Expected two processes');
  const times: number[] = [];
  const endsAt = performance.now() + seconds * 1_000;
  await holder.run('take', { resource }, LIMIT);
  do {
    const taken = waiter.run('take', { resource }, LIMIT);
    // Awaited below; until then nobody handles a rejection.
    taken.catch(() => undefined);
    await pause(5 + Math.random() * 20);
    const [{ acquiredAt }, { releasedAt }] = await Promise.all([
      taken,
      holder.run('give', { resource }, LIMIT),
    ]);
    times.push(acquiredAt - releasedAt);
    [holder, waiter] = [waiter, holder];
  } while (performance.now() < endsAt);
  await holder.run('give', { resource }, LIMIT);
  // On one clock, an acquisition before the release means two holders at once.
  const early = times.filter((time) => time < 0).length;
  const { count, max, p50, p99 } = distributionOf(times);
  return { count, max, p50, p99, ...(early > 0 ? { overlaps: early } : {}) };
}
