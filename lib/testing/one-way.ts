import type { Environment } from '../core/environment.js';
import type { Milliseconds } from '../core/units.js';

/** One direction of a connection: delays what is sent, and keeps its order. */
export class OneWay {
  readonly #environment: Environment;
  readonly #travelling: (() => void)[] = [];
  #busyUntil: Milliseconds = 0;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  /** Calls `arrive` after `delay` ms, and after all that was sent before; at once if it can. */
  send(delay: Milliseconds, arrive: () => void): void {
    const travelling = this.#travelling;
    if (travelling.length === 0 && delay === 0) {
      arrive();
      return;
    }
    const now = this.#environment.now();
    // Fake timers may set the clock back: nothing must wait for what arrived long ago.
    const busyUntil = travelling.length === 0 ? now : this.#busyUntil;
    this.#busyUntil = Math.max(busyUntil, now + delay);
    travelling.push(arrive);
    // Timers of different lengths may fire slightly out of order: whatever was sent before this
    // arrives before it.
    const onArrival = (): void => {
      const place = travelling.indexOf(arrive);
      for (const next of travelling.splice(0, place + 1)) next();
    };
    this.#environment.startTimer(this.#busyUntil - now, onArrival, false);
  }

  /** Lets all that is on the way arrive now. */
  hasten(): void {
    for (const arrive of this.#travelling.splice(0)) arrive();
  }
}
