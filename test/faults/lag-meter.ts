import type { Milliseconds } from 'nestjs-locked';

/** Measures how late this process's timers are: how much of the time the machine was too busy. */
export class LagMeter {
  #total: Milliseconds = 0;
  #lastAt = performance.now();
  readonly #timer = setInterval(() => this.#tick(), STEP);

  /** All lateness so far. */
  get total(): Milliseconds {
    return this.#total;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    const now = performance.now();
    this.#total += Math.max(0, now - this.#lastAt - STEP);
    this.#lastAt = now;
  }
}

const STEP: Milliseconds = 20;
