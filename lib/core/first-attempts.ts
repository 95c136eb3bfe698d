import { inMicrotask } from './environment.js';
import { Linked, LinkedList } from './linked-list.js';
import type { FailedAttempt, OnSettled } from './attempt.js';
import type { Waiter } from './waiter.js';

/**
 * While the first attempts that are under way want this many resources together, no other begins.
 * More would not be answered sooner: a process that asks for 100,000 locks in one turn would hear
 * of the last ones when too little of their ttl is left. At 20 ms to the nodes this many are still
 * 100,000 a second.
 */
export const RESOURCES_AT_ONCE_MAX = 2_048;

/** What an attempt comes to that is given up before any node was asked. */
const CANCELLED: FailedAttempt = { verdict: 'cancelled', answers: [], tieBreaker: null };

/** The first attempt of a call that has to wait until there is room for it. */
class Later extends Linked<Later> {
  constructor(readonly begin: () => void) {
    super();
  }
}

/** The attempts of calls that may try at once: so many at a time, in the order of the calls. */
export class FirstAttempts {
  /** How many resources the attempts that are under way want together. */
  #wanted = 0;
  readonly #later = new LinkedList<Later>();

  /** Begins the waiter's attempt when there is room for it; until then it can be cancelled. */
  start(waiter: Waiter, attempt: (onSettled: OnSettled) => void, onSettled: OnSettled): void {
    // One call may want 1,000 of them, which cost a node as much as 1,000 calls do.
    const size = waiter.resources.length;
    const begin = (): void => {
      this.#wanted += size;
      try {
        attempt((result) => {
          onSettled(result);
          this.#wanted -= size;
          // Not before whoever gives up many calls, as a shutdown does, is done with it.
          if (this.#later.first !== null) inMicrotask(() => this.#beginNext());
        });
      } catch (error) {
        // Thrown out before there was an attempt, which would give its room back when given up.
        if (waiter.attempt === null) this.#wanted -= size;
        throw error;
      }
    };
    if (this.#later.first === null && this.#wanted < RESOURCES_AT_ONCE_MAX) {
      begin();
      return;
    }
    const later = new Later(begin);
    this.#later.insert(later);
    const cancel = (): void => {
      this.#later.remove(later);
      onSettled(CANCELLED);
    };
    waiter.attempt = { cancel };
  }

  #beginNext(): void {
    let next = this.#later.first;
    while (next !== null && this.#wanted < RESOURCES_AT_ONCE_MAX) {
      this.#later.remove(next);
      next.begin();
      next = this.#later.first;
    }
  }
}
