// The bench's command line.
import { parseArgs } from 'node:util';

import { catalogue, isCandidateName, type CandidateName } from './candidates/catalogue.js';
import { scenarios } from './scenarios/all.js';
import type { Scenario } from './scenarios/scenario.js';

export const usage = `npm run bench [-- options]
  --scenario S2,S4   only these of ${scenarios.map(({ id }) => id).join(', ')}
  --candidate a,b    only these of ${Object.keys(catalogue).join(', ')}
  --seconds 3        of one measurement; default: each scenario's own
  --rounds 5         default: each scenario's own
  --quick            everything short, in 7 minutes: shows that it runs; its figures are worth little
  --fresh-keys       a resource is used once (S1, S2, S5, S6, Q); default: one per caller, again and again
  --auto-pipelining  the other libraries' ioredis clients have enableAutoPipelining (not in S5)
  --awake            keeps idle cores awake: one may take longer to wake than a lock; takes chrt (util-linux)
  --profile FOLDER   a CPU profile (.cpuprofile) of each candidate's process, and a table of them (profiles.md)
  --out FOLDER       default: bench/results, and dist/bench-results with --quick or --candidate`;

export interface BenchOptions {
  readonly scenarios: readonly Scenario[];
  readonly only: readonly CandidateName[] | null;
  readonly seconds: number | null;
  readonly rounds: number | null;
  readonly isQuick: boolean;
  readonly isFresh: boolean;
  readonly isPipelined: boolean;
  readonly isAwake: boolean;
  readonly profile: string | null;
  readonly out: string;
  readonly isHelp: boolean;
}

/** @throws Error for anything that is not in the {@link usage}. */
export function parseOptions(args: readonly string[]): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      scenario: { type: 'string' },
      candidate: { type: 'string' },
      seconds: { type: 'string' },
      rounds: { type: 'string' },
      quick: { type: 'boolean', default: false },
      'fresh-keys': { type: 'boolean', default: false },
      'auto-pipelining': { type: 'boolean', default: false },
      awake: { type: 'boolean', default: false },
      profile: { type: 'string' },
      out: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  const only = values.candidate?.split(',').map((name) => candidateNamed(name)) ?? null;
  const isPartial = values.quick || only !== null;
  return {
    scenarios: chooseScenarios(values.scenario),
    only,
    seconds: positive('seconds', values.seconds),
    rounds: positive('rounds', values.rounds),
    isQuick: values.quick,
    isFresh: values['fresh-keys'],
    isPipelined: values['auto-pipelining'],
    isAwake: values.awake,
    profile: values.profile ?? null,
    out: values.out ?? (isPartial ? 'dist/bench-results' : 'bench/results'),
    isHelp: values.help,
  };
}

function chooseScenarios(names: string | undefined): readonly Scenario[] {
  if (names === undefined) return scenarios;
  return names.split(',').map((name) => {
    const scenario = scenarios.find(({ id }) => id === name.toUpperCase());
    if (scenario === undefined) throw new Error(`Expected a scenario, got '${name}'`);
    return scenario;
  });
}

function candidateNamed(name: string): CandidateName {
  if (!isCandidateName(name)) throw new Error(`Expected a candidate, got '${name}'`);
  return name;
}

function positive(name: string, text: string | undefined): number | null {
  if (text === undefined) return null;
  const value = Number(text);
  if (!(value > 0)) throw new Error(`Expected --${name} to be a number above 0, got '${text}'`);
  return value;
}
