/** A clock that shows another time than the true one, and runs at another rate. */
export class SimulatedClock {
  #trueTime = 0;
  #shown: number;
  #rate: number;

  constructor(shown: number, rate: number) {
    this.#shown = shown;
    this.#rate = rate;
  }

  get rate(): number {
    return this.#rate;
  }

  /** What the clock shows at `trueTime`, which is not before the last change. */
  read(trueTime: number): number {
    return this.#shown + (trueTime - this.#trueTime) * this.#rate;
  }

  setRate(trueTime: number, rate: number): void {
    this.#shown = this.read(trueTime);
    this.#trueTime = trueTime;
    this.#rate = rate;
  }

  step(trueTime: number, delta: number): void {
    this.#shown = this.read(trueTime) + delta;
    this.#trueTime = trueTime;
  }
}
