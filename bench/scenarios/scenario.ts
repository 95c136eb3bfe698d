// What a scenario is, what it is given, and what it hands back.
import type { CandidateName } from '../candidates/catalogue.js';
import type { Launch } from '../processes/candidate-process.js';
import type { Figure } from '../measure/statistics.js';

export type ScenarioId =
  'S1' | 'S2' | 'S3' | 'S4' | 'S5' | 'S6' | 'S7' | 'S8' | 'S9' | 'S10' | 'S11' | 'S12' | 'Q';

/** How long and how often to measure. */
export interface Pace {
  /** The length of one measurement. */
  readonly seconds: number;
  readonly rounds: number;
}

/** What a scenario runs in. */
export interface BenchContext {
  readonly pace: Pace;
  /** Less of everything: to see that it runs; its figures mean nothing. */
  readonly isQuick: boolean;
  /** Whether each resource is used only once. */
  readonly isFresh: boolean;
  /** Whether the other libraries' clients send the commands of a turn together. */
  readonly isPipelined: boolean;
  /** Null for all that the scenario names. */
  readonly only: readonly CandidateName[] | null;
  readonly launch: Launch;
  log(line: string): void;
}

/** A measured quantity: a column of the table. */
export interface Metric {
  readonly key: string;
  readonly label: string;
  readonly unit: string;
}

/** What one round measured, by metric. */
export type Sample = Readonly<Record<string, number>>;

/** One candidate's line in a table. */
export interface Row {
  readonly candidate: string;
  readonly label: string;
  readonly figures: Readonly<Record<string, Figure>>;
  /** Why there are no figures, or no more of them. */
  readonly failure: string | null;
}

/** What was measured under the same conditions: a table. */
export interface Group {
  readonly title: string;
  readonly rows: readonly Row[];
}

export interface Scenario {
  readonly id: ScenarioId;
  readonly title: string;
  /** The question that the scenario answers. */
  readonly question: string;
  readonly full: Pace;
  readonly quick: Pace;
  readonly metrics: readonly Metric[];
  /** The metrics that are plotted. */
  readonly plotted: readonly string[];
  run(context: BenchContext): Promise<Group[]>;
}
