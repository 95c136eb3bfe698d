import { contestants, type CandidateName } from '../candidates/catalogue.js';
import { latenciesOf, latencyMetrics, runPairs, troubleOf, warmUpPairs } from './pairs-sample.js';
import { withServers } from './servers.js';
import { chosen, describeFailure, rowOf, usualSettings, type Team } from './turns.js';
import type { RedisServer } from '../../test/support/redis-servers.js';
import type { BenchContext, Group, Metric, Row, Sample, Scenario } from './scenario.js';

const CALLERS = 8;
/** Healthy windows before the fault; the rounds are windows under it. */
const HEALTHY_WINDOWS = 3;
/** So long without a pair, and the candidate is said to hang. */
const IDLE_WINDOWS_MAX = 2;

type Fault = 'frozen' | 'killed';

const healthyMetrics: readonly Metric[] = latencyMetrics.map(({ key, label, unit }) => ({
  key: `healthy.${key}`,
  label: `healthy: ${label}`,
  unit,
}));

/**
 * What does one dead node cost in time and memory? Frozen (SIGSTOP): it accepts bytes and answers
 * nothing. Killed: its connections break. New servers for each candidate, as the fault stays. The
 * rounds come after one more window, which has the transition in it: what a candidate keeps until
 * it has found out is told apart from what goes on growing.
 */
export const deadNode: Scenario = {
  id: 'S5',
  title: `One node dead, ${CALLERS} callers`,
  question: 'What does one dead node cost in time and memory?',
  full: { seconds: 2, rounds: 5 },
  quick: { seconds: 0.25, rounds: 2 },
  metrics: [
    ...healthyMetrics,
    ...latencyMetrics,
    { key: 'transition', label: 'memory growth in the transition', unit: 'kB' },
    { key: 'memory', label: 'memory growth after it', unit: 'kB' },
    { key: 'pairs', label: 'pairs in a window', unit: '' },
  ],
  plotted: ['acquireP99', 'memory'],
  async run(context) {
    const groups: Group[] = [];
    const counts = context.isQuick ? [3] : [3, 5];
    for (const count of counts) {
      for (const fault of ['frozen', 'killed'] as const) {
        context.log(`S5, one of ${count} ${fault}`);
        const rows: Row[] = [];
        for (const name of chosen(context, contestants)) {
          rows.push(await withServers(count, (servers) => expose(context, name, servers, fault)));
        }
        groups.push({ title: `one of ${count} nodes ${fault}`, rows });
      }
    }
    return groups;
  },
};

async function expose(
  context: BenchContext,
  name: CandidateName,
  servers: readonly RedisServer[],
  fault: Fault,
): Promise<Row> {
  const urls = servers.map(({ url }) => url);
  const samples: Sample[] = [];
  let failure: string | null = null;
  const process = await context.launch({ candidate: name, urls, settings: usualSettings });
  const team = { name, process, processes: [process] };
  try {
    await warmUpPairs(context, team, CALLERS);
    samples.push(...(await healthyWindows(context, team)));
    const before = await usedMemory(team);
    if (fault === 'frozen') servers[0]?.freeze();
    else servers[0]?.kill();
    const between = await faultyWindows(context, team, samples);
    const after = await usedMemory(team);
    samples.push({ transition: between - before, memory: after - between });
  } catch (error) {
    failure = describeFailure(error);
    context.log(`  ${name}: ${failure}`);
  } finally {
    await process.stop();
  }
  return rowOf(name, samples, failure);
}

const MEMORY_LIMIT = 10_000;

async function healthyWindows(context: BenchContext, { name, process }: Team): Promise<Sample[]> {
  const samples: Sample[] = [];
  for (let window = 0; window < HEALTHY_WINDOWS; window += 1) {
    const task = { callers: CALLERS, prefix: name, seconds: context.pace.seconds / 4 };
    const latencies = Object.entries(latenciesOf(await runPairs(context, process, task)));
    samples.push(Object.fromEntries(latencies.map(([key, value]) => [`healthy.${key}`, value])));
  }
  return samples;
}

// Returns the memory that was used when the first window was over. A window without a pair may be
// the transition; a second one in a row is a hang.
async function faultyWindows(
  context: BenchContext,
  team: Team,
  samples: Sample[],
): Promise<number> {
  const { name, process } = team;
  let afterFirst = NaN;
  let idle = 0;
  for (let window = 0; window <= context.pace.rounds; window += 1) {
    try {
      // Other resources in each window: the locks of callers that hang stay taken.
      const task = { callers: CALLERS, prefix: `${name}:${window}` };
      const result = await runPairs(context, process, task);
      samples.push({ ...latenciesOf(result), ...troubleOf(result), pairs: result.completed });
      idle = 0;
    } catch (error) {
      idle += 1;
      if (idle === IDLE_WINDOWS_MAX) throw error;
    }
    if (window === 0) afterFirst = await usedMemory(team);
  }
  return afterFirst;
}

// In kB.
async function usedMemory({ process }: Team): Promise<number> {
  const { used } = await process.run('memory', null, MEMORY_LIMIT);
  return used / 1_000;
}
