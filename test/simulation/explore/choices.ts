// Where more than one thing may happen, a play asks. Its plan names the few points at which
// something else happens than usual; so a play is told by its plan, and the search knows by the
// points of one play which others there are.

/** Something that may happen in place of the usual. */
export interface Fate {
  readonly name: string;
  /** For how long, in ms, nobody need get a lock because of it. */
  readonly excuse: number;
}

/** A point of a play, from 0 on, and which of its fates happens there, from 1 on. */
export type Deviation = readonly [point: number, fate: number];

/** The deviations of one play, in the order of their points. */
export type PlayPlan = readonly Deviation[];

/** Says what happens in one play. */
export class Choices {
  /** Nothing but the usual happens, and no point is counted, until it is set. */
  isLive = false;
  /** How many fates there were at each point. */
  readonly points: number[] = [];
  readonly #chosen: ReadonlyMap<number, number>;

  constructor(
    plan: PlayPlan,
    private readonly onFate: (about: string, fate: Fate) => void,
  ) {
    this.#chosen = new Map(plan);
  }

  /** What happens here, to `about`; null: the usual. */
  ask<Kind extends Fate>(about: string, fates: readonly Kind[]): Kind | null {
    if (!this.isLive || fates.length === 0) return null;
    const chosen = this.#chosen.get(this.points.length);
    this.points.push(fates.length);
    const fate = chosen === undefined ? undefined : fates[chosen - 1];
    if (fate === undefined) return null;
    this.onFate(about, fate);
    return fate;
  }
}
