import { contenders } from '../candidates/catalogue.js';
import { hotKeyMetrics, hotKeySample, hotKeySettings } from './hot-key-sample.js';
import { warmUpPairs } from './pairs-sample.js';
import { withServers } from './servers.js';
import { takeTurns } from './turns.js';
import type { Scenario } from './scenario.js';

const CALLERS = 50;

/** What does a hot resource cost, and how long do callers wait, when all are in one process? */
export const hotKey: Scenario = {
  id: 'S3',
  title: `One hot resource, one process, ${CALLERS} callers, 1 ms inside, N = 3`,
  question:
    'What does a hot resource cost, and who waits how long, when one process has all the callers?',
  full: { seconds: 1.5, rounds: 5 },
  quick: { seconds: 0.5, rounds: 1 },
  metrics: hotKeyMetrics,
  plotted: ['rate', 'waitP99', 'fairness'],
  run: (context) =>
    withServers(3, async (_servers, urls) => {
      context.log('S3');
      const load = { callers: CALLERS, section: 1, stateUrl: null };
      const rows = await takeTurns(context, {
        names: contenders,
        urls,
        settings: hotKeySettings,
        warmUp: (team) => warmUpPairs(context, team, { callers: CALLERS }),
        measure: (team) => hotKeySample(context, team, load),
      });
      return [{ title: '', rows }];
    }),
};
