import { contenders } from '../candidates/catalogue.js';
import {
  handOverMetrics,
  handOverOnce,
  handOverSample,
  HAND_OVER_LIMIT,
  pairOf,
} from './handover-sample.js';
import { withServers } from './servers.js';
import { takeTurns, usualSettings } from './turns.js';
import type { CandidateProcess } from '../processes/candidate-process.js';
import type { Sample, Scenario } from './scenario.js';

/**
 * How long does nobody hold a lock that somebody waits for? The two processes swap roles each time.
 */
export const handover: Scenario = {
  id: 'S8',
  title: 'From a release in one process to the acquisition in another, N = 3',
  question: 'How long is a lock nobody’s when somebody waits for it?',
  // With fewer than a few hundred hand-overs, the p99 would be the maximum.
  full: { seconds: 5, rounds: 4 },
  quick: { seconds: 0.5, rounds: 1 },
  metrics: handOverMetrics,
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
  let [holder, waiter] = pairOf(processes);
  const times: number[] = [];
  const endsAt = performance.now() + seconds * 1_000;
  await holder.run('take', { resource }, HAND_OVER_LIMIT);
  do {
    const taken = waiter.run('take', { resource }, HAND_OVER_LIMIT);
    // Awaited below; until then nobody handles a rejection.
    taken.catch(() => undefined);
    times.push(await handOverOnce(holder, resource, taken));
    [holder, waiter] = [waiter, holder];
  } while (performance.now() < endsAt);
  await holder.run('give', { resource }, HAND_OVER_LIMIT);
  return handOverSample(times);
}
