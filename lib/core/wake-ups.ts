// Hears of the releases of one resource, on all nodes. A quorum of nodes must have told of one
// before another attempt is worthwhile: when only the first has, the others still refuse it.
// PROTOCOL.md section 10.
import type { Ensemble } from './ensemble.js';

/** Called when enough nodes can be heard, and when enough of them have told of a release. */
export interface WakeUpListener {
  /** From now on no release goes unheard. */
  onLive(): void;
  /** The resource may be free; `listeners` processes were told so. */
  onWake(listeners: number): void;
}

/** One process's subscriptions, on all nodes, to the releases of one resource. */
export class WakeUps {
  readonly #quorum: number;
  readonly #isLive: boolean[];
  /** Which nodes have told of a release since the last attempt: each counts once. */
  readonly #hasTold: boolean[];
  readonly #stops: readonly (() => void)[];

  constructor(ensemble: Ensemble, resource: string, listener: WakeUpListener) {
    const { nodes, quorum, options } = ensemble;
    this.#quorum = quorum;
    this.#isLive = nodes.map(() => false);
    this.#hasTold = nodes.map(() => false);
    this.#stops = nodes.map((node, index) =>
      node.listen(options.world, resource, {
        onLive: (isLive) => {
          const wasLive = this.isLive;
          this.#isLive[index] = isLive;
          if (this.isLive && !wasLive) listener.onLive();
        },
        onWake: (listeners) => {
          this.#hasTold[index] = true;
          if (!this.#isEnough(this.#hasTold)) return;
          this.forget();
          listener.onWake(listeners);
        },
      }),
    );
  }

  /** Whether a release would be heard from a quorum of nodes. */
  get isLive(): boolean {
    return this.#isEnough(this.#isLive);
  }

  /** Begins to count anew: an attempt starts, and what was heard before says nothing about it. */
  forget(): void {
    this.#hasTold.fill(false);
  }

  /** Stops listening. */
  stop(): void {
    for (const stop of this.#stops) stop();
  }

  #isEnough(nodes: readonly boolean[]): boolean {
    return nodes.filter(Boolean).length >= this.#quorum;
  }
}
