import { contestants } from '../candidates/catalogue.js';
import { measureThroughput, throughputMetrics } from './s2-in-flight.js';
import { withServers } from './servers.js';
import { usualSettings } from './turns.js';
import type { Group, Scenario } from './scenario.js';

/**
 * What do locks cost in the middle of requests? In S2 callers do nothing else, so that those whose
 * replies arrive together ask together. Here each waits for something of its own in between, and
 * asks by itself.
 */
export const apart: Scenario = {
  id: 'S11',
  title: 'Each caller by itself, N = 3',
  question: 'What do locks cost in the middle of requests, each of which asks by itself?',
  full: { seconds: 0.7, rounds: 15 },
  quick: { seconds: 0.25, rounds: 1 },
  metrics: throughputMetrics,
  plotted: ['rate', 'cpu', 'redisCpu'],
  async run(context) {
    const groups: Group[] = [];
    for (const callers of context.isQuick ? [64] : [64, 512]) {
      context.log(`S11, ${callers} callers`);
      const load = { callers, isApart: true };
      const rows = await withServers(3, (_servers, urls) =>
        measureThroughput(context, { names: contestants, urls, load, settings: usualSettings }),
      );
      groups.push({ title: `${callers} callers`, rows });
    }
    return groups;
  },
};
