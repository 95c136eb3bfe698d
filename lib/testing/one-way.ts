import type { Environment } from '../core/environment.js';
import type { Milliseconds } from '../core/units.js';

/** One direction of a connection: what is sent takes its time, and nothing overtakes. */
export class OneWay {
  readonly #environment: Environment;
  readonly #travelling: (() => void)[] = [];
  #busyUntil: Milliseconds = 0;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  /** Calls `arrive` after `delay` ms, and after all that was sent before; at once where it can. */
  send(delay: Milliseconds, arrive: () => void): void {
    const travelling = this.#travelling;
    if (travelling.length === 0 && delay === 0) {
      arrive();
      return;
    }
    const now = this.#environment.now();
    // Fake timers set the clock back: what has arrived long since is not to be waited for.
    const busyUntil = travelling.length === 0 ? now : this.#busyUntil;
    this.#busyUntil = Math.max(busyUntil, now + delay);
    travelling.push(arrive);
    // Timers of different lengths may fire a little out of their order: what was sent before this
    // comes before it.
    const onArrival = (): void => {
      const place = travelling.indexOf(arrive);
      for (const next of travelling.splice(0, place + 1)) next();
    };
    this.#environment.startTimer(Math.max(0, this.#busyUntil - now), onArrival, false);
  }

  /** What is on the way arrives now. */
  hasten(): void {
    for (const arrive of this.#travelling.splice(0)) arrive();
  }
}
