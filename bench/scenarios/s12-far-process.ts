import { contenders } from '../candidates/catalogue.js';
import { startDelayProxy } from '../processes/delay-proxy.js';
import { fewestMetric, hotKeyMetrics, hotKeySample } from './hot-key-sample.js';
import { withServers } from './servers.js';
import { takeTurns, usualSettings } from './turns.js';
import type { Scenario } from './scenario.js';

const CALLERS = 4;
const PROCESSES = 3;
const DELAY = 20;
const SECTION = 5;

/**
 * Does a process get its turns that is farther away from the nodes than others? Whoever tries as
 * soon as it hears of a release, or now and then, finds the lock taken again by those who are near.
 */
export const farProcess: Scenario = {
  id: 'S12',
  title:
    `One hot resource, ${PROCESSES} processes with ${CALLERS} callers each, ${SECTION} ms inside, ` +
    `one of the processes ${DELAY} ms farther away, N = 3`,
  question: 'Does a process get its turns that is farther away from the nodes than others?',
  full: { seconds: 6, rounds: 3 },
  quick: { seconds: 0.5, rounds: 1 },
  metrics: [fewestMetric, ...hotKeyMetrics],
  plotted: ['fewest', 'rate'],
  run: (context) =>
    withServers(4, async ([state, ...servers]) => {
      context.log('S12');
      const proxies = await Promise.all(servers.map(({ port }) => startDelayProxy(port)));
      for (const proxy of proxies) proxy.delay = DELAY;
      const task = {
        callers: CALLERS,
        seconds: context.pace.seconds,
        section: SECTION,
        grace: context.isQuick ? 1_000 : 2_500,
        stateUrl: state?.url ?? null,
      };
      try {
        const rows = await takeTurns(context, {
          names: contenders,
          urls: servers.map(({ url }) => url),
          farUrls: proxies.map(({ url }) => url),
          settings: { ...usualSettings, patience: 10_000 },
          processCount: PROCESSES,
          warmUp: (team) => hotKeySample(team, task),
          measure: (team) => hotKeySample(team, task),
        });
        return [{ title: '', rows }];
      } finally {
        await Promise.all(proxies.map((proxy) => proxy.close()));
      }
    }),
};
