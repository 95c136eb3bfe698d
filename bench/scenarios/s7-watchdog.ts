import { contestants, keyOf, type CandidateName } from '../candidates/catalogue.js';
import { pause } from '../measure/pause.js';
import { RedisMeter } from '../measure/redis-meter.js';
import { withServers } from './servers.js';
import { chosen, describeFailure, rowOf, usualSettings } from './turns.js';
import type { CandidateProcess } from '../processes/candidate-process.js';
import type { BenchContext, Group, Row, Sample, Scenario } from './scenario.js';

const TTL = 3_000;
const NODES = 3;
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
    { key: 'cpu', label: 'CPU of one core', unit: '%' },
    { key: 'commands', label: 'commands per second to each node', unit: '/s' },
    { key: 'redisCpu', label: 'redis CPU, each node', unit: '%' },
    { key: 'delayP50', label: 'event-loop delay p50', unit: 'ms' },
    { key: 'delayP99', label: 'event-loop delay p99', unit: 'ms' },
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
        rows.push(await withServers(NODES, (_servers, urls) => hold(context, name, urls, count)));
      }
      groups.push({ title: `${count} locks`, rows });
    }
    return groups;
  },
};

async function hold(
  context: BenchContext,
  name: CandidateName,
  urls: readonly string[],
  count: number,
): Promise<Row> {
  const samples: Sample[] = [];
  let failure: string | null = null;
  const meter = new RedisMeter(urls);
  const settings = { ...usualSettings, ttl: TTL };
  const process = await context.launch({ candidate: name, urls, settings });
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
      const { sample, lost } = await watch(context, process, meter);
      samples.push(sample);
      given = lost;
    }
    const keys = Array.from({ length: count }, (_, index) => keyOf(name, `${name}:${index}`));
    const copies = await meter.countCopies(keys);
    const gone = copies.filter((copyCount) => copyCount < QUORUM).length;
    samples.push({ lost: Math.max(given, gone) });
  } catch (error) {
    failure = describeFailure(error);
    context.log(`  ${name}: ${failure}`);
  } finally {
    meter.close();
    await process.stop();
  }
  return rowOf(name, samples, failure);
}

// Commands are counted in a time of their own: counting would add to the CPU of those that send many.
async function watch(
  { pace: { seconds } }: BenchContext,
  process: CandidateProcess,
  meter: RedisMeter,
): Promise<{ readonly sample: Sample; readonly lost: number }> {
  const limit = seconds * 1_000 + 15_000;
  const before = await meter.read();
  const { cpu, delayP50, delayP99, duration } = await process.run(
    'watch',
    { seconds, isCounted: false },
    limit,
  );
  const after = await meter.read();
  const counted = await process.run('watch', { seconds, isCounted: true }, limit);
  const sample = {
    cpu: (cpu / duration) * 100,
    commands: (counted.wire.commands / counted.duration / NODES) * 1_000,
    redisCpu: ((after.cpu - before.cpu) / duration / NODES) * 100,
    delayP50,
    delayP99,
  };
  return { sample, lost: counted.lost };
}
