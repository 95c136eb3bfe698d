/** A rule that did not hold. */
export interface Finding {
  /** The checker that saw it. */
  readonly check: string;
  /** True time, in ms. */
  readonly at: number;
  readonly message: string;
}

/** What the checkers of one universe have found. */
export class Findings {
  readonly all: Finding[] = [];

  add(check: string, at: number, message: string): void {
    // The first few say it all; a broken algorithm would fill the memory.
    if (this.all.length < 20) this.all.push({ check, at, message });
  }
}
