import { contestants } from '../candidates/catalogue.js';
import { pause } from '../measure/pause.js';
import { besideHealthy, faultMetrics, runPairs, warmUpPairs } from './pairs-sample.js';
import { withProxies, withServers } from './servers.js';
import { takeTurns, usualSettings } from './turns.js';
import type { DelayProxy } from '../processes/delay-proxy.js';
import type { BenchContext, Group, Scenario } from './scenario.js';

const CALLERS = 8;
const DELAY = 50;

/**
 * Does a slow node slow everybody down? All traffic goes through proxies, which so cost both sides
 * the same; one of them adds the delay in every other measurement.
 */
export const slowNode: Scenario = {
  id: 'S6',
  title: `One of 3 nodes ${DELAY} ms slower, ${CALLERS} callers`,
  question: 'Does a slow node slow everybody down?',
  full: { seconds: 0.5, rounds: 15 },
  quick: { seconds: 0.25, rounds: 1 },
  metrics: faultMetrics,
  plotted: ['acquireP50', 'acquireP99'],
  run: (context) =>
    withServers(3, (servers) =>
      withProxies(servers, async (proxies) => {
        context.log('S6');
        return [await measure(context, proxies)];
      }),
    ),
};

async function measure(context: BenchContext, proxies: readonly DelayProxy[]): Promise<Group> {
  const setDelay = (delay: number): void => {
    const [slow] = proxies;
    if (slow !== undefined) slow.delay = delay;
  };
  const rows = await takeTurns(context, {
    names: contestants,
    urls: proxies.map(({ url }) => url),
    settings: usualSettings,
    warmUp: (team) => warmUpPairs(context, team, { callers: CALLERS }),
    measure: async ({ name, process }) => {
      const task = { callers: CALLERS, prefix: name };
      const healthy = await runPairs(context, process, task);
      setDelay(DELAY);
      try {
        return besideHealthy(await runPairs(context, process, task), healthy);
      } finally {
        setDelay(0);
        // What is still on its way must not disturb the next candidate.
        await pause(2 * DELAY);
      }
    },
  });
  return { title: '', rows };
}
