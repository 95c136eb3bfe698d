// Extends one lock: rounds of extension, and who waits for them. PROTOCOL.md section 5.
import { ExtensionRound } from './extension-round.js';
import { RoundTerms } from './node-leases.js';
import { describeAnswer } from './node-votes.js';
import { nodeTimeoutOf } from './options.js';
import type { Ensemble } from './ensemble.js';
import type { NodeVote } from './errors.js';
import type { ExtendAnswer, OwnerRequest } from './lock-node.js';
import type { Milliseconds } from './units.js';

/** The lock that an {@link Extender} extends. */
export interface Extendable {
  /** Whether it is held and may still be extended. */
  isExtendable(): boolean;
  /** The request that gives its keys a new `ttl`. */
  extensionRequest(ttl: Milliseconds): OwnerRequest;
  /** Takes a node's answer into account, unless it came too late to count for anything. */
  onExtensionAnswer(node: number, answer: ExtendAnswer, terms: RoundTerms): void;
  onExtended(): void;
}

/** The extensions of one lock. */
export class Extender {
  readonly #ensemble: Ensemble;
  readonly #lock: Extendable;
  /** For each node, until when it is not asked again: an extension of this lock is outstanding. */
  readonly #outstandingUntil: Milliseconds[];
  /** What each node said when it was asked last; null where it has not answered yet. */
  readonly #answers: (ExtendAnswer | null)[];
  readonly #openRounds = new Set<ExtensionRound>();

  constructor(ensemble: Ensemble, lock: Extendable) {
    this.#ensemble = ensemble;
    this.#lock = lock;
    this.#outstandingUntil = ensemble.nodes.map(() => -Infinity);
    this.#answers = ensemble.nodes.map(() => null);
  }

  /**
   * Asks every node that owes no answer, if there is one. Calls back once: with true when a quorum
   * has extended, with false when all that were asked have answered or the lock has ended.
   */
  startRound(ttl: Milliseconds, onSettled: (isRenewed: boolean) => void): void {
    const askable = this.#askable();
    if (askable.length === 0 || !this.#lock.isExtendable()) {
      onSettled(false);
      return;
    }
    const { environment, nodes, observer, options, quorum } = this.#ensemble;
    const terms = new RoundTerms(environment, ttl, options.driftFactor);
    const request = this.#lock.extensionRequest(ttl);
    const round = new ExtensionRound(terms, askable, quorum);
    this.#openRounds.add(round);
    round.onSettled((isRenewed) => {
      this.#openRounds.delete(round);
      // A round that the lock's end broke off says nothing about the nodes.
      if (isRenewed || this.#lock.isExtendable()) {
        const duration = environment.now() - terms.startedAt;
        observer.roundDecided('extend', request.resources, duration, isRenewed);
      }
      if (isRenewed) this.#lock.onExtended();
    });
    round.onSettled(onSettled);
    for (const node of askable) {
      // A node that stays silent for a whole ttl will not answer that extension any more.
      this.#outstandingUntil[node] = terms.startedAt + ttl;
      this.#answers[node] = null;
      nodes[node]?.extend(request, (answer) => this.#onAnswer(node, answer, round));
    }
  }

  /**
   * Extends in a round that can reach a quorum: if too many nodes owe an answer to an earlier
   * round, after that one. Resolves, after at most one node timeout, to whether a quorum extended.
   */
  extend(ttl: Milliseconds): Promise<boolean> {
    const { options, quorum, roundTimers } = this.#ensemble;
    return new Promise((resolve) => {
      let isOver = false;
      const finish = (isRenewed: boolean): void => {
        isOver = true;
        timer.stop();
        resolve(isRenewed);
      };
      const begin = (): void => {
        if (isOver) return;
        const [earlier] = this.#openRounds;
        if (earlier === undefined || this.#askable().length >= quorum) this.startRound(ttl, finish);
        else earlier.onSettled(begin);
      };
      const timeout = nodeTimeoutOf(options, ttl);
      const timer = roundTimers.start(timeout, () => finish(false));
      begin();
    });
  }

  /** Ends all waiting for rounds: the lock has ended. */
  stop(): void {
    for (const round of this.#openRounds) round.settle(false);
  }

  /** What the nodes said when they were asked last. */
  lastVotes(): readonly NodeVote[] {
    const { nodes } = this.#ensemble;
    return nodes.map((node, index) => describeAnswer(node, this.#answers[index] ?? null));
  }

  #askable(): number[] {
    const now = this.#ensemble.environment.now();
    return [...this.#outstandingUntil.keys()].filter(
      (node) => now >= (this.#outstandingUntil[node] ?? 0),
    );
  }

  #onAnswer(node: number, answer: ExtendAnswer, round: ExtensionRound): void {
    this.#outstandingUntil[node] = -Infinity;
    // First: the answer may end the lock, and the error for that names what each node said.
    this.#answers[node] = answer;
    // Where that has ended, so has the round.
    this.#lock.onExtensionAnswer(node, answer, round.terms);
    round.answered(node, answer);
  }
}
