import { contenders } from '../candidates/catalogue.js';
import { fewestMetric, hotKeyMetrics, hotKeySample, hotKeySettings } from './hot-key-sample.js';
import { withProxies, withServers } from './servers.js';
import { takeTurns } from './turns.js';
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
  // With most candidates the far process seldom has a turn: a short round counts chance.
  full: { seconds: 15, rounds: 3 },
  quick: { seconds: 0.5, rounds: 1 },
  metrics: [fewestMetric, ...hotKeyMetrics],
  plotted: ['fewest', 'rate'],
  run: (context) =>
    withServers(4, ([state, ...servers]) =>
      withProxies(servers, async (proxies) => {
        context.log('S12');
        for (const proxy of proxies) proxy.delay = DELAY;
        const load = { callers: CALLERS, section: SECTION, stateUrl: state?.url ?? null };
        const rows = await takeTurns(context, {
          names: contenders,
          urls: servers.map(({ url }) => url),
          farUrls: proxies.map(({ url }) => url),
          settings: hotKeySettings,
          processCount: PROCESSES,
          warmUp: (team) => hotKeySample(context, team, load),
          measure: (team) => hotKeySample(context, team, load),
        });
        return [{ title: '', rows }];
      }),
    ),
};
