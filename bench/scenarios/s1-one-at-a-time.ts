import { soloists } from '../candidates/catalogue.js';
import {
  countedPairs,
  latenciesOf,
  latencyMetrics,
  runPairs,
  troubleOf,
  warmUpPairs,
  wireMetrics,
} from './pairs-sample.js';
import { withServers } from './servers.js';
import { takeTurns, usualSettings } from './turns.js';
import type { BenchContext, Group, Scenario } from './scenario.js';

/** How long does one lock take when nothing else is going on? */
export const oneAtATime: Scenario = {
  id: 'S1',
  title: 'One at a time',
  question: 'How long does one lock take when nothing else is going on?',
  full: { seconds: 0.3, rounds: 15 },
  quick: { seconds: 0.25, rounds: 2 },
  metrics: [...latencyMetrics, ...wireMetrics],
  plotted: ['acquireP50', 'acquireP99'],
  async run(context) {
    const groups: Group[] = [];
    for (const count of context.isQuick ? [3] : [1, 3, 5]) {
      context.log(`S1, N = ${count}`);
      groups.push(await withServers(count, (_servers, urls) => measure(context, urls)));
    }
    return groups;
  },
};

async function measure(context: BenchContext, urls: readonly string[]): Promise<Group> {
  const rows = await takeTurns(context, {
    names: soloists,
    urls,
    settings: usualSettings,
    warmUp: (team) => warmUpPairs(context, team, { callers: 1 }),
    measure: async ({ name, process }) => {
      const result = await runPairs(context, process, { callers: 1, prefix: name });
      return { ...latenciesOf(result), ...troubleOf(result) };
    },
    finish: (team) => countedPairs(context, team, { callers: 1 }),
  });
  return { title: `N = ${urls.length}`, rows };
}
