// A process that has waited far beyond its turn, as others are nearer to the nodes, says so, and
// the others rest until it has come. PROTOCOL.md section 10.
import type { Milliseconds } from './units.js';

/** For how long, at least, a process waits before it is overdue: what it asks costs time. */
const PATIENCE: Milliseconds = 250;

/** How many releases it hears before, for each process that waits: where all take turns, one. */
const TURNS_MISSED = 2.5;

/** For how long the others rest: time for a process 90 ms away, or a busy one. */
const REST: Milliseconds = 100;

/** After how many releases others rest for the same ones: these may be frozen, or want more. */
const RESTS_MAX = 3;

/** This process's claim to a turn at one resource, from the first release that it hears. */
export class Claim {
  /** Whether it is overdue. */
  isMade = false;
  #since: Milliseconds;
  #patience = PATIENCE;
  /** How many releases by others it has heard since then. */
  #heard = 0;
  /** After how many of them the others rested for it. */
  #rests = 0;

  constructor(now: Milliseconds) {
    this.#since = now;
  }

  /** Another process released it: `listeners` were told, and so many of these were overdue. */
  noteHeard(listeners: number, overdue: number, now: Milliseconds): void {
    this.#heard += 1;
    if (!this.isMade) {
      const hasWaited = now - this.#since >= this.#patience;
      this.isMade = hasWaited && this.#heard >= TURNS_MISSED * listeners;
      return;
    }
    if (overdue > 0) this.#rests += 1;
    if (this.#rests > RESTS_MAX) this.#withdraw(now);
  }

  // It did not come, like one that waits for something else besides: it asks for less and less.
  #withdraw(now: Milliseconds): void {
    this.isMade = false;
    this.#since = now;
    this.#patience *= 2;
    this.#heard = this.#rests = 0;
  }
}

/** How long this process rests for others that are overdue. */
export class Rest {
  /** On the monotonic clock. */
  until: Milliseconds = 0;
  #overdue = 0;
  /** How many releases in a row told of the same number. */
  #unchanged = 0;

  /** Others were told of a release, and so many of them are overdue. */
  noteTold(overdue: number, now: Milliseconds): void {
    this.#unchanged = overdue === this.#overdue ? this.#unchanged + 1 : 0;
    this.#overdue = overdue;
    this.until = overdue > 0 && this.#unchanged < RESTS_MAX ? now + REST : 0;
  }
}
