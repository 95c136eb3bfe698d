import { contestants, type CandidateName } from '../candidates/catalogue.js';
import { RedisMeter } from '../measure/redis-meter.js';
import {
  countedPairs,
  latencyMetrics,
  meteredPairs,
  warmUpPairs,
  wireMetrics,
  type PairsLoad,
} from './pairs-sample.js';
import { withServers } from './servers.js';
import { takeTurns, usualSettings } from './turns.js';
import type { CandidateSettings } from '../candidates/candidate.js';
import type { BenchContext, Group, Metric, Scenario } from './scenario.js';

/** The columns of a table about throughput. */
export const throughputMetrics: readonly Metric[] = [
  { key: 'rate', label: 'pairs per second', unit: '/s' },
  { key: 'cpu', label: 'our CPU per pair', unit: 'µs' },
  { key: 'redisCpu', label: 'redis CPU per pair, all nodes', unit: 'µs' },
  ...wireMetrics,
  { key: 'executed', label: 'commands executed per pair, in scripts too', unit: '' },
  ...latencyMetrics.filter(({ key }) => key.startsWith('acquire')),
];

/** How many locks can one process take and release, each caller a resource of its own? */
export const inFlight: Scenario = {
  id: 'S2',
  title: 'Many in flight',
  question: 'How many locks can one process take and release, each caller a resource of its own?',
  full: { seconds: 0.7, rounds: 15 },
  quick: { seconds: 0.25, rounds: 2 },
  metrics: throughputMetrics,
  plotted: ['rate', 'cpu', 'redisCpu'],
  async run(context) {
    const groups: Group[] = [];
    for (const count of context.isQuick ? [3] : [1, 3, 5]) {
      for (const callers of [64, 512]) {
        context.log(`S2, N = ${count}, ${callers} in flight`);
        const rows = await withServers(count, (_servers, urls) =>
          measureThroughput(context, {
            names: contestants,
            urls,
            load: { callers },
            settings: usualSettings,
          }),
        );
        groups.push({ title: `N = ${count}, ${callers} in flight`, rows });
      }
    }
    return groups;
  },
};

/** Who is measured, and how. */
export interface ThroughputPlan {
  readonly names: readonly CandidateName[];
  readonly urls: readonly string[];
  readonly load: PairsLoad;
  readonly settings: CandidateSettings;
}

/** Interleaved rounds of pairs, with the servers' CPU. */
export async function measureThroughput(
  context: BenchContext,
  { load, ...plan }: ThroughputPlan,
): Promise<Group['rows']> {
  const meter = new RedisMeter(plan.urls);
  try {
    return await takeTurns(context, {
      ...plan,
      warmUp: (team) => warmUpPairs(context, team, load),
      measure: (team) => meteredPairs(context, team, meter, load),
      finish: (team) => countedPairs(context, team, load),
    });
  } finally {
    meter.close();
  }
}
