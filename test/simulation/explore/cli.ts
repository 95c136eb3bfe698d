// npm run explore -- [--scenario queue,close] [--depth 2] [--seconds 60] [--failures 3]
//   [--random 1000 --from SEED] [--mutant NAME], or --scenario queue --replay '[[12,3]]'
import { parseArgs } from 'node:util';

import { wholeNumber } from '../whole-number.js';
import { Play } from './play.js';
import { scenarios } from './scenarios.js';
import { Search } from './search.js';
import type { PlayPlan } from './choices.js';
import type { Scenario } from './scenarios.js';

const { values } = parseArgs({
  options: {
    scenario: { type: 'string', default: [...scenarios.keys()].join(',') },
    depth: { type: 'string' },
    seconds: { type: 'string', default: '60' },
    random: { type: 'string' },
    from: { type: 'string', default: '1' },
    replay: { type: 'string' },
    failures: { type: 'string', default: '1' },
  },
});

const chosen = values.scenario.split(',').map(scenarioNamed);
if (values.replay === undefined) {
  // Errors are part of the plays; nobody reads their stacks.
  Error.stackTraceLimit = 0;
  for (const scenario of chosen) await explore(scenario);
} else {
  for (const scenario of chosen) await replay(scenario, JSON.parse(values.replay) as PlayPlan);
}

async function explore(scenario: Scenario): Promise<void> {
  const startedAt = performance.now();
  const endAt = startedAt + wholeNumber('seconds', values.seconds) * 1_000;
  const isOver = (): boolean => performance.now() > endAt;
  const failuresMax = wholeNumber('failures', values.failures);
  const search = new Search(scenario, { isOver, failuresMax });
  const depth = wholeNumber(
    'depth',
    values.depth ?? `${values.random === undefined ? scenario.depth : 3}`,
    0,
  );
  const from = wholeNumber('from', values.from);
  if (values.random === undefined) await search.all(depth);
  else await search.drawn(wholeNumber('random', values.random), depth, from);
  const seconds = (performance.now() - startedAt) / 1_000;
  const { plays, points, fates, idleLongest, failures, isCut } = search;
  const extent = isCut || values.random !== undefined ? '' : 'all ';
  console.log(
    `${scenario.name}: ${extent}${plays} plays in ${seconds.toFixed(1)} s, ` +
      `${points} points, ${fates} fates, idle for at most ${idleLongest.toFixed(0)} ms`,
  );
  for (const { plan, finding } of failures) {
    process.exitCode = 1;
    console.log(`FAILED at ${finding.at.toFixed(3)}: ${finding.check}: ${finding.message}`);
    console.log(
      `replay: npm run explore -- --scenario ${scenario.name} --replay '${JSON.stringify(plan)}'`,
    );
  }
}

async function replay(scenario: Scenario, plan: PlayPlan): Promise<void> {
  const { trace, findings } = await new Play(scenario, plan, true).run();
  for (const line of trace) console.log(line);
  for (const { check, at, message } of findings) console.log(`at ${at}: ${check}: ${message}`);
  console.log(`findings: ${findings.length}`);
  process.exitCode = findings.length > 0 ? 1 : 0;
}

function scenarioNamed(name: string): Scenario {
  const scenario = scenarios.get(name);
  if (scenario !== undefined) return scenario;
  throw new RangeError(`Expected a scenario out of ${[...scenarios.keys()].join()}, got ${name}`);
}
