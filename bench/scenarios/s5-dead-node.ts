import { contestants, type CandidateName } from '../candidates/catalogue.js';
import { besideHealthy, faultMetrics, runPairs, warmUpPairs } from './pairs-sample.js';
import { withServers } from './servers.js';
import { chosen, measureRow, usualSettings, type Team } from './turns.js';
import type { RedisServer } from '../../test/support/redis-servers.js';
import type { BenchContext, Group, Row, Sample, Scenario } from './scenario.js';

const CALLERS = 8;
/** After so many windows without a pair, a candidate is said to hang. */
const IDLE_WINDOWS_MAX = 2;

type Fault = 'frozen' | 'killed';

/**
 * What does one dead node cost in time and memory? A frozen node (SIGSTOP) accepts bytes but
 * answers nothing; a killed node's connections break. As the fault stays, each candidate runs
 * twice, with new servers: the two take turns, so that each window under the fault has a healthy
 * one beside it.
 * An extra window before the rounds has the transition in it, to separate what a candidate keeps
 * until it has found out from what goes on growing.
 */
export const deadNode: Scenario = {
  id: 'S5',
  title: `One node dead, ${CALLERS} callers`,
  question: 'What does one dead node cost in time and memory?',
  full: { seconds: 1, rounds: 10 },
  quick: { seconds: 0.25, rounds: 2 },
  metrics: [
    ...faultMetrics,
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
          rows.push(await expose(context, name, count, fault));
        }
        groups.push({ title: `one of ${count} nodes ${fault}`, rows });
      }
    }
    return groups;
  },
};

function expose(
  context: BenchContext,
  name: CandidateName,
  count: number,
  fault: Fault,
): Promise<Row> {
  return measureRow(context, name, (samples) =>
    withCandidate(context, name, count, (spared) =>
      withCandidate(context, name, count, async (exposed, [victim]) => {
        const before = await usedMemory(exposed);
        if (fault === 'frozen') victim?.freeze();
        else victim?.kill();
        const between = await runWindows(context, exposed, spared, samples);
        const after = await usedMemory(exposed);
        samples.push({ transition: between - before, memory: after - between });
      }),
    ),
  );
}

function withCandidate<T>(
  context: BenchContext,
  name: CandidateName,
  count: number,
  work: (team: Team, servers: readonly RedisServer[]) => Promise<T>,
): Promise<T> {
  return withServers(count, async (servers, urls) => {
    const process = await context.launch({ candidate: name, urls, settings: usualSettings });
    const team = { name, process, processes: [process] };
    try {
      await warmUpPairs(context, team, { callers: CALLERS });
      return await work(team, servers);
    } finally {
      await process.stop();
    }
  });
}

const MEMORY_LIMIT = 10_000;

// Returns the memory that was used when the first window was over. A window without a pair may be
// the transition; a second one in a row is a hang.
async function runWindows(
  context: BenchContext,
  exposed: Team,
  spared: Team,
  samples: Sample[],
): Promise<number> {
  let afterFirst = NaN;
  let idle = 0;
  const { name } = exposed;
  for (let window = 0; window <= context.pace.rounds; window += 1) {
    const healthy = await runPairs(context, spared.process, { callers: CALLERS, prefix: name });
    try {
      // Other resources in each window: the locks of hanging callers stay taken.
      const task = { callers: CALLERS, prefix: `${name}:${window}` };
      const faulty = await runPairs(context, exposed.process, task);
      samples.push({ ...besideHealthy(faulty, healthy), pairs: faulty.completed });
      idle = 0;
    } catch (error) {
      idle += 1;
      if (idle === IDLE_WINDOWS_MAX) throw error;
    }
    if (window === 0) afterFirst = await usedMemory(exposed);
  }
  return afterFirst;
}

// In kB.
async function usedMemory({ process }: Team): Promise<number> {
  return (await process.run('memory', null, MEMORY_LIMIT)) / 1_000;
}
