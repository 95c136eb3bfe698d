// The bench: runs scenarios one after the other and reports them. Usage: see options.ts.
import { RedisMeter } from './measure/redis-meter.js';
import { parseOptions, usage, type BenchOptions } from './options.js';
import { keepCoresAwake } from './processes/awake-cores.js';
import { childLauncher } from './processes/child-process.js';
import { reportProfiles } from './report/profiles.js';
import { writeReport } from './report/report.js';
import { describeMachine, mergeResults, readResults } from './report/results.js';
import { scenarios } from './scenarios/all.js';
import { withServers } from './scenarios/servers.js';
import type { Machine, ScenarioRecord } from './report/results.js';
import type { Pace, Scenario } from './scenarios/scenario.js';

async function main(args: readonly string[]): Promise<void> {
  const options = parseOptions(args);
  if (options.isHelp) {
    console.log(usage);
    return;
  }
  const command = ['npm run bench', ...(args.length === 0 ? [] : ['--', ...args])].join(' ');
  const machine = describeMachine(await redisVersion(), options.isAwake);
  const awakeCores = options.isAwake ? await keepCoresAwake() : null;
  try {
    // Written after each scenario: a run that is stopped early keeps what it has measured.
    for (const scenario of options.scenarios) {
      const record = await measure(scenario, options, command, machine);
      writeReport(options.out, mergeResults(readResults(options.out), [record], scenarios));
      console.log(`${scenario.id} took ${record.duration.toFixed(1)} s`);
    }
  } finally {
    awakeCores?.end();
  }
  if (options.profile !== null) reportProfiles(options.profile);
  console.log(`Results: ${options.out}/results.md`);
}

async function measure(
  scenario: Scenario,
  options: BenchOptions,
  command: string,
  machine: Machine,
): Promise<ScenarioRecord> {
  const { isFresh, isPipelined, isQuick, only, profile } = options;
  const pace = paceOf(scenario, options);
  const startedAt = performance.now();
  const groups = await scenario.run({
    pace,
    isQuick,
    isFresh,
    isPipelined,
    only,
    launch: childLauncher(profile),
    log: (line) => console.log(line),
  });
  const { id, metrics, plotted, question, title } = scenario;
  return {
    ...{ id, title, question, metrics, plotted, pace, isQuick, command, machine, groups },
    measuredAt: new Date().toISOString(),
    duration: (performance.now() - startedAt) / 1_000,
  };
}

function paceOf({ full, quick }: Scenario, { isQuick, rounds, seconds }: BenchOptions): Pace {
  const usual = isQuick ? quick : full;
  return { seconds: seconds ?? usual.seconds, rounds: rounds ?? usual.rounds };
}

function redisVersion(): Promise<string> {
  return withServers(1, async (_servers, urls) => {
    const meter = new RedisMeter(urls);
    try {
      return await meter.version();
    } finally {
      meter.close();
    }
  });
}

await main(process.argv.slice(2));
