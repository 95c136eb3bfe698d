// How long a round waits for the nodes. PROTOCOL.md section 4.5.
import { TIMER_ERROR, type Environment, type TimerHandle } from './environment.js';
import type { Milliseconds } from './units.js';

/** Ends a round in which too few nodes answer. */
export class RoundTimer {
  readonly #environment: Environment;
  #timer: TimerHandle;

  /**
   * Calls back `timeout` ms from now. If that is late, it begins once more: this process was busy,
   * and what it asks leaves it only when the tick ends, so that the nodes have had less time.
   */
  constructor(environment: Environment, timeout: Milliseconds, onTimeout: () => void) {
    const startedAt = environment.now();
    const onTime = (): void => {
      const isLate = environment.now() - startedAt > timeout + TIMER_ERROR;
      if (isLate) this.#timer = environment.startTimer(timeout, onTimeout, true);
      else onTimeout();
    };
    this.#environment = environment;
    this.#timer = environment.startTimer(timeout, onTime, true);
  }

  stop(): void {
    this.#environment.stopTimer(this.#timer);
  }
}
