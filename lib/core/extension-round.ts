import type { ExtendAnswer } from './lock-node.js';
import type { RoundTerms } from './node-leases.js';

/** One round of extension: who still owes an answer, and whether those that came are enough. */
export class ExtensionRound {
  readonly terms: RoundTerms;
  readonly #owing: Set<number>;
  /** How many more nodes have to grant it. */
  #wanted: number;
  readonly #listeners: ((isRenewed: boolean) => void)[] = [];
  #isSettled = false;

  /** `nodes`: those that are asked. */
  constructor(terms: RoundTerms, nodes: readonly number[], quorum: number) {
    this.terms = terms;
    this.#owing = new Set(nodes);
    this.#wanted = quorum;
  }

  /** Calls back once: when a quorum has extended, or no answer is owed or wanted any more. */
  onSettled(listener: (isRenewed: boolean) => void): void {
    this.#listeners.push(listener);
  }

  answered(node: number, { vote }: ExtendAnswer): void {
    // A node has one vote, however often its answer arrives.
    if (!this.#owing.delete(node)) return;
    if (vote === 'granted') this.#wanted -= 1;
    if (this.#wanted === 0) this.settle(true);
    else if (this.#owing.size === 0) this.settle(false);
  }

  settle(isRenewed: boolean): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    for (const listener of this.#listeners) listener(isRenewed);
  }
}
