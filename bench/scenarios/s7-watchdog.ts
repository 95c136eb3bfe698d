import { contestants, keyOf, type CandidateName } from '../candidates/catalogue.js';
import { pause } from '../measure/pause.js';
import { RedisMeter } from '../measure/redis-meter.js';
import { withServers } from './servers.js';
import { chosen, measureRow, usualSettings } from './turns.js';
import { NODES, watchMetrics, watchSample } from './watch-sample.js';
import type { BenchContext, Group, Row, Scenario } from './scenario.js';

const TTL = 3_000;
const QUORUM = 2;
const FILL_LIMIT = 40_000;

/**
 * What does it cost to hold many locks for long, with each library's own watchdog, and are all of
 * them still there in the end? A lock is lost when its library says so, or when fewer than a
 * quorum of servers have its key.
 */
export const watchdog: Scenario = {
  id: 'S7',
  title: `Locks held by the watchdog, ttl ${TTL / 1_000} s, N = ${NODES}`,
  question: 'What does it cost to hold many locks for long, and are all of them still there?',
  full: { seconds: 3, rounds: 3 },
  quick: { seconds: 1.25, rounds: 2 },
  metrics: [
    ...watchMetrics,
    { key: 'heap', label: 'heap per lock', unit: 'B' },
    { key: 'fill', label: 'time to take them', unit: 's' },
    { key: 'lost', label: 'locks lost', unit: '' },
  ],
  plotted: ['cpu', 'commands', 'delayP99', 'heap'],
  async run(context) {
    const groups: Group[] = [];
    for (const count of context.isQuick ? [2_000] : [2_000, 10_000]) {
      context.log(`S7, ${count} locks`);
      const rows: Row[] = [];
      for (const name of chosen(context, contestants)) {
        rows.push(await hold(context, name, count));
      }
      groups.push({ title: `${count} locks`, rows });
    }
    return groups;
  },
};

function hold(context: BenchContext, name: CandidateName, count: number): Promise<Row> {
  return measureRow(context, name, (samples) =>
    withServers(NODES, async (_servers, urls) => {
      const settings = { ...usualSettings, ttl: TTL };
      const process = await context.launch({ candidate: name, urls, settings });
      const meter = new RedisMeter(urls);
      try {
        const { duration, heapPerLock } = await process.run(
          'fill',
          { prefix: name, count },
          FILL_LIMIT,
        );
        samples.push({ heap: heapPerLock, fill: duration / 1_000 });
        // By now all locks are acquired, and the first lease of every lock is over.
        await pause(TTL / 3);
        let given = 0;
        for (let window = 0; window < context.pace.rounds; window += 1) {
          const { sample, counted } = await watchSample(context, process, meter);
          samples.push(sample);
          given = counted.lost;
        }
        const keys = Array.from({ length: count }, (_, index) => keyOf(name, `${name}:${index}`));
        const copies = await meter.countCopies(keys);
        const gone = copies.filter((copyCount) => copyCount < QUORUM).length;
        samples.push({ lost: Math.max(given, gone) });
      } finally {
        meter.close();
        await process.stop();
      }
    }),
  );
}
