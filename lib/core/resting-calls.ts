import { CoalescedTimers, SLOT } from './coalesced-timers.js';
import type { Environment } from './environment.js';
import type { Milliseconds } from './units.js';
import type { Waiter } from './waiter.js';

/**
 * How many calls may rest before each rests for longer. Unwoken, that many make some 4,000 attempts
 * a second together: more would take the core of their process from those who hold locks.
 */
const RESTING_MAX = 200;

/**
 * How many resources a call may want before it rests for longer in a crowd: its attempts, and their
 * undo, cost the nodes more in proportion, and hold up the locks of others.
 */
const RESOURCES_MAX = 5;

/** Shorter rests are exact: they are for who wants to ask often. */
const EXACT_MAX: Milliseconds = 2 * SLOT;

/** The calls of one process that rest between two attempts. */
export class RestingCalls {
  readonly #timers: CoalescedTimers;
  #count = 0;

  constructor(environment: Environment) {
    this.#timers = new CoalescedTimers(environment);
  }

  /**
   * Rests until woken, or for `delay` ms, but for at most `patience` ms: longer in a crowd, and up
   * to 10 ms longer than 20 ms or more, so that many go on together. Resolves to whether it was
   * woken.
   * @throws the reason of the interruption.
   */
  async rest(waiter: Waiter, delay: Milliseconds, patience: Milliseconds): Promise<boolean> {
    this.#count += 1;
    const size = Math.max(1, waiter.resources.length / RESOURCES_MAX);
    const rest = delay * Math.max(1, (this.#count * size) / RESTING_MAX);
    const isExact = rest < EXACT_MAX || rest + SLOT > patience;
    try {
      return await waiter.pause(Math.min(rest, patience), isExact ? null : this.#timers);
    } finally {
      this.#count -= 1;
    }
  }
}
