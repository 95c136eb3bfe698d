// Hears of the releases of one resource, on all nodes. A quorum of nodes must have told of one
// before another attempt is worthwhile: when only the first has, the others still refuse it.
// PROTOCOL.md section 10.
import { OVERDUE } from './lock-node.js';
import type { Ensemble } from './ensemble.js';
import type { LockNode, Told, WakeListener } from './lock-node.js';

/** Called when enough nodes can be heard, and when enough of them have told of a release. */
export interface WakeUpListener {
  /** From now on no release goes unheard. */
  onLive(): void;
  /** The resource may be free. */
  onWake(others: Told): void;
}

/** One process's subscriptions, on all nodes, to the releases of one resource. */
export class WakeUps {
  readonly #ensemble: Ensemble;
  readonly #resource: string;
  readonly #isLive: boolean[];
  /**
   * For each node: 1 when it has told of a release that is not heard yet, -1 when it is still to
   * tell of one that is. What it tells late must not count for the next.
   */
  readonly #told: number[];
  readonly #stops: readonly (() => void)[];
  /** What ends the claim to be overdue, at each node; empty while there is none. */
  #claims: readonly (() => void)[] = [];

  constructor(ensemble: Ensemble, resource: string, listener: WakeUpListener) {
    const { nodes, options } = ensemble;
    this.#ensemble = ensemble;
    this.#resource = resource;
    this.#isLive = nodes.map(() => false);
    this.#told = nodes.map(() => 0);
    this.#stops = nodes.map((node, index) =>
      node.listen(options.world, resource, {
        onLive: (isLive) => {
          const wasLive = this.isLive;
          this.#isLive[index] = isLive;
          // What a connection had still to tell is lost with it.
          this.#told[index] = 0;
          if (this.isLive && !wasLive) listener.onLive();
        },
        onWake: (others) => {
          this.#told[index] = Math.min(1, (this.#told[index] ?? 0) + 1);
          if (!this.#isEnough(this.#told.map((told) => told > 0))) return;
          for (const [node, told] of this.#told.entries()) this.#told[node] = Math.max(0, told) - 1;
          listener.onWake(others);
        },
      }),
    );
  }

  /** Whether a release would be heard from a quorum of nodes. */
  get isLive(): boolean {
    return this.#isEnough(this.#isLive);
  }

  /**
   * Begins to count anew: an attempt starts, and what was heard before says nothing about it. What
   * nodes are still to tell, they will tell all the same.
   */
  forget(): void {
    for (const [node, told] of this.#told.entries()) this.#told[node] = Math.min(0, told);
  }

  /** Says whether this process is overdue. */
  claim(isOverdue: boolean): void {
    const isClaimed = this.#claims.length > 0;
    if (isOverdue === isClaimed) return;
    for (const stop of this.#claims) stop();
    const { nodes, options } = this.#ensemble;
    // Only to be counted. Nothing is told under this name.
    const silent: WakeListener = { onLive: () => undefined, onWake: () => undefined };
    const listenAt = (node: LockNode): (() => void) =>
      node.listen(options.world, OVERDUE + this.#resource, silent);
    this.#claims = isOverdue ? nodes.map(listenAt) : [];
  }

  /** Stops listening. */
  stop(): void {
    this.claim(false);
    for (const stop of this.#stops) stop();
  }

  #isEnough(nodes: readonly boolean[]): boolean {
    return nodes.filter(Boolean).length >= this.#ensemble.quorum;
  }
}
