import { inMicrotask } from './environment.js';
import { TransientMap } from './transient-map.js';
import type { FailedAttempt, OnSettled } from './attempt.js';
import type { Waiter } from './waiter.js';

/**
 * How many first attempts may be under way. More would not be answered sooner: a process that asks
 * for 100,000 locks in one turn would hear of the last ones when too little of their ttl is left.
 * At 20 ms to the nodes this many are still 100,000 a second.
 */
const UNDER_WAY_MAX = 2_048;

/** What an attempt comes to that is given up before any node was asked. */
const CANCELLED: FailedAttempt = { verdict: 'cancelled', answers: [], tieBreaker: null };

/** The first attempts of one process: so many at a time, in the order of the calls. */
export class FirstAttempts {
  #underWay = 0;
  /** What starts those that are not yet under way. */
  readonly #later = new TransientMap<() => void, null>();

  /** Starts the waiter's attempt when there is room for it; until then it can be cancelled. */
  start(waiter: Waiter, attempt: (onSettled: OnSettled) => void, onSettled: OnSettled): void {
    const run = (): void =>
      attempt((result) => {
        onSettled(result);
        if (this.#later.size === 0) this.#underWay -= 1;
        // Not before whoever gives up many calls, as a shutdown does, is done with it.
        else inMicrotask(() => this.#startNext());
      });
    if (this.#underWay < UNDER_WAY_MAX) {
      this.#underWay += 1;
      run();
      return;
    }
    this.#later.set(run, null);
    const cancel = (): void => {
      this.#later.delete(run);
      onSettled(CANCELLED);
    };
    waiter.attempt = { cancel };
  }

  // In the place of one that has settled.
  #startNext(): void {
    for (const run of this.#later.keys()) {
      this.#later.delete(run);
      run();
      return;
    }
    this.#underWay -= 1;
  }
}
