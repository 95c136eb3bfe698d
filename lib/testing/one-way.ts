import type { Environment } from '../core/environment.js';
import type { Milliseconds } from '../core/units.js';

interface Message {
  readonly arrive: () => void;
  /** By {@link Environment.now}. */
  readonly arrivesAt: Milliseconds;
}

/** One direction of a connection: delays what is sent, and keeps its order. */
export class OneWay {
  readonly #environment: Environment;
  readonly #travelling: Message[] = [];

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
    const arrivesAt = Math.max(travelling.at(-1)?.arrivesAt ?? now, now + delay);
    travelling.push({ arrive, arrivesAt });
    // Timers of different lengths may fire slightly out of order: whatever was sent before this
    // arrives before it, and what was sent with it together with it.
    const onArrival = (): void => {
      const due = travelling.filter((message) => message.arrivesAt <= arrivesAt);
      this.#deliver(due.length);
    };
    this.#environment.startTimer(arrivesAt - now, onArrival, false);
  }

  /** Lets all that is on the way arrive now. */
  hasten(): void {
    this.#deliver(this.#travelling.length);
  }

  #deliver(count: number): void {
    for (const { arrive } of this.#travelling.splice(0, count)) arrive();
  }
}
