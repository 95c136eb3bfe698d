import type { Environment } from '../core/environment.js';
import type { Milliseconds } from '../core/units.js';

/**
 * When to connect anew: later after each failure in a row. A connection that ends soon after it
 * worked is one too: else a server that cuts off whoever it has greeted would be called on 20 times
 * a second by each process, for ever.
 */
export class ReconnectDelay {
  #failureCount = 0;
  /** From then on the connection has lasted. */
  #lastsFrom: Milliseconds = Infinity;

  constructor(private readonly environment: Environment) {}

  /** The connection works. */
  connected(): void {
    this.#lastsFrom = this.environment.now() + RETRY_MAX;
  }

  /** Called when a connection has ended, or was not made: how long to wait for the next. */
  next(): Milliseconds {
    if (this.environment.now() >= this.#lastsFrom) this.#failureCount = 0;
    this.#lastsFrom = Infinity;
    const delay = Math.min(RETRY_MAX, RETRY_MIN * 2 ** this.#failureCount);
    this.#failureCount += 1;
    // Random, so that the processes of an application do not come back all at once.
    return delay * (0.5 + this.environment.random());
  }
}

const RETRY_MIN: Milliseconds = 50;
const RETRY_MAX: Milliseconds = 2_000;
