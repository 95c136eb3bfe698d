import { pause } from '../measure/pause.js';
import { measureThroughput, throughputMetrics } from './s2-in-flight.js';
import { withServers } from './servers.js';
import type { Group, Scenario } from './scenario.js';

/** Longer than ttlMax 3 s times the drift: until then no vote of a new server counts. */
const QUARANTINE = 3_500;

/**
 * What does the quarantine of restarted nodes add? Everything else is measured without it, as the
 * bench's servers are brand new. Here both sides wait until it is over; then they differ only in
 * reading the certificate.
 */
export const quarantine: Scenario = {
  id: 'Q',
  title: 'With and without quarantine, N = 3',
  question: 'What does the quarantine of restarted nodes add?',
  full: { seconds: 0.5, rounds: 15 },
  quick: { seconds: 0.25, rounds: 1 },
  metrics: throughputMetrics,
  plotted: ['rate', 'redisCpu'],
  run: (context) =>
    withServers(3, async (_servers, urls) => {
      const settings = { ttl: 3_000, patience: 10_000 };
      // The certificates are written when the first client with quarantine connects.
      const setup = { candidate: 'ours-quarantine', urls, settings } as const;
      const first = await context.launch(setup);
      await pause(QUARANTINE);
      await first.stop();
      const groups: Group[] = [];
      for (const callers of [1, 512]) {
        context.log(`Q, ${callers} in flight`);
        const names = ['ours-no-quarantine', 'ours-quarantine'] as const;
        const plan = { names, urls, load: { callers }, settings };
        const rows = await measureThroughput(context, plan);
        groups.push({ title: `${callers} in flight`, rows });
      }
      return groups;
    }),
};
