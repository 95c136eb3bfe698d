// Candidates take turns: each round measures all of them, beginning with a different one, so that
// what disturbs the machine for a while disturbs them all.
import { catalogue, type CandidateName } from '../candidates/catalogue.js';
import { figureOf, type Figure } from '../measure/statistics.js';
import type { CandidateSettings } from '../candidates/candidate.js';
import type { CandidateProcess } from '../processes/candidate-process.js';
import type { BenchContext, Row, Sample } from './scenario.js';

/** One candidate, in one process or several. */
export interface Team {
  readonly name: CandidateName;
  /** The first of them. */
  readonly process: CandidateProcess;
  readonly processes: readonly CandidateProcess[];
}

export interface TurnPlan {
  readonly names: readonly CandidateName[];
  readonly urls: readonly string[];
  readonly settings: CandidateSettings;
  /** @default 1 */
  readonly processCount?: number;
  /** The same servers by a longer way, for the last process. @default the way of all others */
  readonly farUrls?: readonly string[];
  readonly warmUp: (team: Team) => Promise<unknown>;
  readonly measure: (team: Team) => Promise<Sample>;
  /** Called once, after all rounds. */
  readonly finish?: (team: Team) => Promise<Sample>;
}

/** In ms; longer than any candidate keeps trying. */
const REST_MAX = 15_000;

/** The settings of all candidates, unless a scenario has a reason for others. */
export const usualSettings: CandidateSettings = { ttl: 10_000, patience: 5_000 };

interface Entrant {
  readonly name: CandidateName;
  team: Team | null;
  readonly samples: Sample[];
  failure: string | null;
}

/** Runs all rounds. A candidate that fails is out, and its row says why. */
export async function takeTurns(context: BenchContext, plan: TurnPlan): Promise<Row[]> {
  const names = chosen(context, plan.names);
  const entrants = names.map((name): Entrant => ({ name, team: null, samples: [], failure: null }));
  try {
    for (const entrant of entrants) {
      await attempt(context, entrant, async () => {
        entrant.team = await startTeam(context, plan, entrant.name);
        await plan.warmUp(entrant.team);
      });
      await rest(context, entrant);
    }
    for (let round = 0; round < context.pace.rounds; round += 1) {
      for (const entrant of rotate(entrants, round)) {
        await sample(context, entrant, plan.measure);
        await rest(context, entrant);
      }
    }
    if (plan.finish !== undefined) {
      for (const entrant of entrants) await sample(context, entrant, plan.finish);
    }
  } finally {
    const processes = entrants.flatMap(({ team }) => team?.processes ?? []);
    await Promise.all(processes.map((process) => process.stop()));
  }
  return entrants.map(({ name, samples, failure }) => rowOf(name, samples, failure));
}

/** Those of `names` that are to be measured this time. */
export function chosen(
  { only }: BenchContext,
  names: readonly CandidateName[],
): readonly CandidateName[] {
  return names.filter((name) => only?.includes(name) ?? true);
}

/** Makes a row of the samples. The figure of a metric that only some have is that of those. */
export function rowOf(
  candidate: CandidateName,
  samples: readonly Sample[],
  failure: string | null,
): Row {
  const keys = new Set(samples.flatMap((one) => Object.keys(one)));
  const figures: Record<string, Figure> = {};
  for (const key of keys) {
    const values = samples.map((one) => one[key]).filter((value) => value !== undefined);
    figures[key] = figureOf(values);
  }
  return { candidate, label: catalogue[candidate].label, figures, failure };
}

/** A row of what `work` adds to the samples. It says why, where that fails. */
export async function measureRow(
  context: BenchContext,
  name: CandidateName,
  work: (samples: Sample[]) => Promise<void>,
): Promise<Row> {
  const entrant: Entrant = { name, team: null, samples: [], failure: null };
  await attempt(context, entrant, () => work(entrant.samples));
  return rowOf(name, entrant.samples, entrant.failure);
}

/** The first line of what went wrong. */
function describeFailure(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return (text.split('\n')[0] ?? '').slice(0, 200);
}

function sample(
  context: BenchContext,
  entrant: Entrant,
  measure: (team: Team) => Promise<Sample>,
): Promise<void> {
  return attempt(context, entrant, async () => {
    if (entrant.team !== null) entrant.samples.push(await measure(entrant.team));
  });
}

// Callers that go on trying after their measurement must not disturb those of the next candidate.
async function rest(context: BenchContext, { name, team }: Entrant): Promise<void> {
  const rests = (team?.processes ?? []).map((process) =>
    process.run('rest', { patience: REST_MAX }, 2 * REST_MAX).catch(() => false),
  );
  const isOver = (await Promise.all(rests)).every((outcome) => outcome);
  if (!isOver) context.log(`  ${name}: callers hang`);
}

async function attempt(
  context: BenchContext,
  entrant: Entrant,
  work: () => Promise<void>,
): Promise<void> {
  if (entrant.failure !== null) return;
  try {
    await work();
  } catch (error) {
    entrant.failure = describeFailure(error);
    context.log(`  ${entrant.name}: ${entrant.failure}`);
  }
}

/** Starts all of a candidate's processes, or none. */
export async function startTeam(
  { isPipelined, launch }: BenchContext,
  {
    processCount = 1,
    settings,
    urls,
    farUrls = urls,
  }: Pick<TurnPlan, 'farUrls' | 'processCount' | 'settings' | 'urls'>,
  name: CandidateName,
): Promise<Team> {
  const setup = { candidate: name, settings: { ...settings, isPipelined } };
  const starts = Array.from({ length: processCount }, (_, index) =>
    launch({ ...setup, urls: index < processCount - 1 ? urls : farUrls }),
  );
  const outcomes = await Promise.allSettled(starts);
  const processes = outcomes.flatMap((outcome) =>
    outcome.status === 'fulfilled' ? [outcome.value] : [],
  );
  const failure = outcomes.find((outcome) => outcome.status === 'rejected');
  const [process] = processes;
  if (failure === undefined && process !== undefined) return { name, process, processes };
  await Promise.all(processes.map((started) => started.stop()));
  throw failure?.reason ?? new Error('No process was asked for');
}

function rotate<T>(items: readonly T[], by: number): T[] {
  const start = items.length === 0 ? 0 : by % items.length;
  return [...items.slice(start), ...items.slice(0, start)];
}
