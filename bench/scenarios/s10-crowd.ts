import { contenders, type CandidateName } from '../candidates/catalogue.js';
import { pause } from '../measure/pause.js';
import { RedisMeter } from '../measure/redis-meter.js';
import {
  handOverMetrics,
  handOverOnce,
  handOverSample,
  HAND_OVER_LIMIT,
  pairOf,
} from './handover-sample.js';
import { withServers } from './servers.js';
import { chosen, measureRow, startTeam } from './turns.js';
import { NODES, watchMetrics, watchSample } from './watch-sample.js';
import type { CandidateProcess } from '../processes/candidate-process.js';
import type { TakeResult } from '../tasks/handover.js';
import type { BenchContext, Row, Sample, Scenario } from './scenario.js';

const CALLS = 1_000;
const CALLS_QUICK = 100;

/** Nothing expires, and nobody gives up, before it is over; in ms. */
const SETTINGS = { ttl: 30_000, patience: 60_000 };

/** Until all calls have tried, and rest. */
const SETTLE = 1_500;

/**
 * What do calls cost that wait, and do they hear of a release at once all the same? Each waits for
 * another resource, so that no queue of a process spares any of them.
 */
export const crowd: Scenario = {
  id: 'S10',
  title: `${CALLS} calls of one process wait for what another process holds, N = ${NODES}`,
  question: 'What do calls cost that wait, and do they hear of a release at once all the same?',
  full: { seconds: 2, rounds: 3 },
  quick: { seconds: 0.5, rounds: 1 },
  metrics: [...watchMetrics, ...handOverMetrics],
  plotted: ['cpu', 'commands', 'p50'],
  async run(context) {
    context.log('S10');
    const count = context.isQuick ? CALLS_QUICK : CALLS;
    const rows: Row[] = [];
    for (const name of chosen(context, contenders)) rows.push(await wait(context, name, count));
    return [{ title: context.isQuick ? `quick: ${count} calls` : '', rows }];
  },
};

function wait(context: BenchContext, name: CandidateName, count: number): Promise<Row> {
  return measureRow(context, name, (samples) =>
    withServers(NODES, async (_servers, urls) => {
      const plan = { urls, settings: SETTINGS, processCount: 2 };
      const { processes } = await startTeam(context, plan, name);
      const [holder, waiter] = pairOf(processes);
      const meter = new RedisMeter(urls);
      try {
        const calls = await gather(holder, waiter, count);
        await pause(SETTLE);
        for (let round = 0; round < context.pace.rounds; round += 1) {
          samples.push((await watchSample(context, waiter, meter)).sample);
        }
        samples.push(await handOver(context, holder, calls));
      } finally {
        meter.close();
        await Promise.all(processes.map((process) => process.stop()));
      }
    }),
  );
}

// The calls that wait, by resource.
async function gather(
  holder: CandidateProcess,
  waiter: CandidateProcess,
  count: number,
): Promise<Map<string, Promise<TakeResult>>> {
  const resources = Array.from({ length: count }, (_, index) => `crowd:${index}`);
  await Promise.all(resources.map((resource) => holder.run('take', { resource }, HAND_OVER_LIMIT)));
  return new Map(
    resources.map((resource) => {
      const taken = waiter.run('take', { resource }, SETTINGS.patience);
      // Most are still waiting in the end, when their process is stopped.
      taken.catch(() => undefined);
      return [resource, taken];
    }),
  );
}

// For as long as all rounds together: the p99 of few hand-overs would be their maximum.
async function handOver(
  { pace: { rounds, seconds } }: BenchContext,
  holder: CandidateProcess,
  calls: Map<string, Promise<TakeResult>>,
): Promise<Sample> {
  const times: number[] = [];
  const endsAt = performance.now() + rounds * seconds * 1_000;
  for (const [resource, taken] of calls) {
    if (performance.now() >= endsAt) break;
    calls.delete(resource);
    times.push(await handOverOnce(holder, resource, taken));
  }
  return handOverSample(times);
}
