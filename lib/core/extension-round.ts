import type { ExtendAnswer } from './lock-node.js';
import type { RoundTerms } from './node-leases.js';

/** One round of extension: which nodes were asked, what they said, and whether it was enough. */
export class ExtensionRound {
  readonly terms: RoundTerms;
  readonly #quorum: number;
  readonly #answers = new Map<number, ExtendAnswer | null>();
  readonly #listeners: ((isRenewed: boolean) => void)[] = [];
  #isSettled = false;

  constructor(terms: RoundTerms, quorum: number) {
    this.terms = terms;
    this.#quorum = quorum;
  }

  /** Calls back once: when a quorum has extended, or no answer is owed or wanted any more. */
  onSettled(listener: (isRenewed: boolean) => void): void {
    this.#listeners.push(listener);
  }

  asked(node: number): void {
    this.#answers.set(node, null);
  }

  answered(node: number, answer: ExtendAnswer): void {
    this.#answers.set(node, answer);
    const answers = [...this.#answers.values()];
    const renewed = answers.filter((answer) => answer?.vote === 'granted').length;
    const isOpen = answers.includes(null);
    if (renewed >= this.#quorum) this.settle(true);
    else if (!isOpen) this.settle(false);
  }

  settle(isRenewed: boolean): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    for (const listener of this.#listeners) listener(isRenewed);
  }
}
