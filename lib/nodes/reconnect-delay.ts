import type { Environment } from '../core/environment.js';
import type { Milliseconds } from '../core/units.js';

/**
 * When to reconnect: later after each failure in a row. A connection that ends soon after it began
 * to work is a failure too. Otherwise each process would call 20 times a second, for ever, on a
 * server that cuts off whoever it has greeted.
 */
export class ReconnectDelay {
  #failureCount = 0;
  /** From then on the connection counts as having lasted. */
  #lastsFrom: Milliseconds = Infinity;

  constructor(private readonly environment: Environment) {}

  /** The connection works. */
  connected(): void {
    this.#lastsFrom = this.environment.now() + RETRY_MAX;
  }

  /** How long to wait for the next connection, after one has ended or could not be made. */
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
