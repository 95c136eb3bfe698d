// Which plays are played: all of up to so many deviations, or drawn ones.
import { Random } from '../random.js';
import { Play } from './play.js';
import type { Finding } from '../checks/findings.js';
import type { PlayPlan } from './choices.js';
import type { PlayOutcome } from './play.js';
import type { Scenario } from './scenarios.js';

/** A play that a judge complains of. */
export interface Failure {
  readonly scenario: string;
  readonly plan: PlayPlan;
  readonly finding: Finding;
}

/** When a search ends. */
export interface Limits {
  /** Asked before each play. */
  isOver(): boolean;
  /** Ends after so many plays that failed. */
  readonly failuresMax: number;
}

/** Plays of one scenario. */
export class Search {
  plays = 0;
  /** Points of the play without a deviation, and fates at them. */
  points = 0;
  fates = 0;
  idleLongest = 0;
  readonly failures: Failure[] = [];
  /** Plays were left out. */
  isCut = false;

  constructor(
    private readonly scenario: Scenario,
    private readonly limits: Limits,
  ) {}

  /** All plays of up to `depth` deviations. */
  async all(depth: number, plan: PlayPlan = []): Promise<void> {
    const outcome = await this.#play(plan);
    if (outcome === null || depth === 0) return;
    const { points } = outcome;
    for (let point = nextPoint(plan); point < points.length; point += 1) {
      for (let fate = 1; fate <= (points[point] ?? 0) && !this.isCut; fate += 1) {
        await this.all(depth - 1, [...plan, [point, fate]]);
      }
    }
  }

  /** Draws `count` plans of `depth` deviations by seeds from `from` on, and plays their beginnings too. */
  async drawn(count: number, depth: number, from: number): Promise<void> {
    for (let seed = from; seed < from + count && !this.isCut; seed += 1) {
      await this.#drawOne(depth, new Random(seed, 1));
    }
  }

  async #drawOne(depth: number, random: Random): Promise<void> {
    let plan: PlayPlan = [];
    for (;;) {
      const points = (await this.#play(plan))?.points ?? [];
      const from = nextPoint(plan);
      if (plan.length === depth || from >= points.length) return;
      // Earlier points more often, so that there is room for more.
      const point = from + Math.floor(random.next() ** 1.7 * (points.length - from));
      plan = [...plan, [point, random.integer(1, points[point] ?? 1)]];
    }
  }

  /** Null for a play that failed, or where the search is over. */
  async #play(plan: PlayPlan): Promise<PlayOutcome | null> {
    this.isCut ||= this.failures.length >= this.limits.failuresMax || this.limits.isOver();
    if (this.isCut) return null;
    const outcome = await new Play(this.scenario, plan, false).run();
    this.plays += 1;
    this.idleLongest = Math.max(this.idleLongest, outcome.idleLongest);
    if (plan.length === 0) {
      this.points = outcome.points.length;
      this.fates = outcome.points.reduce((sum, count) => sum + count, 0);
    }
    const [finding] = outcome.findings;
    if (finding === undefined) return outcome;
    this.failures.push({ scenario: this.scenario.name, plan, finding });
    return null;
  }
}

function nextPoint(plan: PlayPlan): number {
  return (plan.at(-1)?.[0] ?? -1) + 1;
}
