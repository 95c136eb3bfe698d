import { contenders } from '../candidates/catalogue.js';
import { hotKeyMetrics, hotKeySample, hotKeySettings } from './hot-key-sample.js';
import { withServers } from './servers.js';
import { takeTurns } from './turns.js';
import type { Scenario } from './scenario.js';

const CALLERS = 8;
const PROCESSES = 4;

/**
 * The same over several processes: are they fair to each other, and are there never two holders?
 * Every holder counts itself in and out on a separate server, by INCR and DECR.
 */
export const hotKeyProcesses: Scenario = {
  id: 'S4',
  title: `One hot resource, ${PROCESSES} processes with ${CALLERS} callers each, 1 ms inside, N = 3`,
  question: 'Are several processes fair to each other, and do two holders never meet?',
  full: { seconds: 4, rounds: 5 },
  quick: { seconds: 0.5, rounds: 1 },
  metrics: hotKeyMetrics,
  plotted: ['rate', 'waitP99', 'fairness'],
  run: (context) =>
    withServers(4, async (_servers, [stateUrl = '', ...urls]) => {
      context.log('S4');
      const load = { callers: CALLERS, section: 1, stateUrl };
      const processCount = context.isQuick ? 2 : PROCESSES;
      const rows = await takeTurns(context, {
        names: contenders,
        urls,
        settings: hotKeySettings,
        processCount,
        // By the same load: pairs without contention run no code for waiting or handing over.
        warmUp: (team) => hotKeySample(context, team, load),
        measure: (team) => hotKeySample(context, team, load),
      });
      return [{ title: context.isQuick ? `quick: ${processCount} processes` : '', rows }];
    }),
};
