import type { Environment } from '../core/environment.js';
import type { Milliseconds } from '../core/units.js';

/** One direction of a connection: what is sent takes its time, and nothing overtakes. */
export class OneWay {
  readonly #environment: Environment;
  #travelling: (() => void)[] = [];
  #busyUntil: Milliseconds = -Infinity;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  /** Calls `arrive` after `delay` ms, and after all that was sent before; at once where it can. */
  send(delay: Milliseconds, arrive: () => void): void {
    const now = this.#environment.now();
    this.#busyUntil = Math.max(this.#busyUntil, now + delay);
    const travelling = this.#travelling;
    if (travelling.length === 0 && this.#busyUntil <= now) {
      arrive();
      return;
    }
    travelling.push(arrive);
    // Whichever comes first: timers of different lengths may fire a little out of their order.
    const onArrival = (): void => travelling.shift()?.();
    this.#environment.startTimer(Math.max(0, this.#busyUntil - now), onArrival, false);
  }

  /** What is on the way arrives now. */
  hasten(): void {
    const arriving = this.#travelling;
    // Another array: timers that have not fired yet are to find nothing in theirs.
    this.#travelling = [];
    this.#busyUntil = -Infinity;
    for (const arrive of arriving.splice(0)) arrive();
  }
}
