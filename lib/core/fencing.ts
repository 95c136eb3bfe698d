// Proposes fencing tokens. Only the nodes decide: a proposal is a guess that most of them will
// find above every token that they have accepted and within their clocks' window.
import type { Environment } from './environment.js';
import type { Microseconds } from './units.js';

const MICROSECONDS = 1_000;

/** Source of one process's token proposals, in microseconds since 1970. */
export class TokenSource {
  readonly #environment: Environment;
  readonly #offsets: (Microseconds | null)[];
  /** What each node's clock showed when it was last heard. */
  readonly #heard: Microseconds[] = [];
  /** The median of the offsets; null until it is wanted again. */
  #offset: Microseconds | null = null;
  #previous: Microseconds = 0;

  constructor(environment: Environment, nodeCount: number) {
    this.#environment = environment;
    this.#offsets = Array.from({ length: nodeCount }, () => null);
  }

  /**
   * The next proposal: the nodes' time as far as known, above this source's earlier proposals
   * and above `low`, the highest bound that a node has refused a proposal with.
   */
  propose(low: Microseconds): Microseconds {
    this.#offset ??= this.#medianOffset();
    const nodeTime = Math.floor(this.#environment.wallClock() * MICROSECONDS) + this.#offset;
    this.#previous = Math.max(nodeTime, low + 1, this.#previous + 1);
    return this.#previous;
  }

  /** Takes note of a node's clock, so that a client with a wrong wall clock gets locks too. */
  learn(node: number, nodeTime: Microseconds): void {
    // The answers of one script call all carry the same time; the first is the nearest to it.
    if (this.#heard[node] === nodeTime) return;
    this.#heard[node] = nodeTime;
    const own = Math.floor(this.#environment.wallClock() * MICROSECONDS);
    this.#offsets[node] = nodeTime - own;
    this.#offset = null;
  }

  /**
   * Forgets earlier proposals after a node called one too far ahead: the own clock was ahead and
   * has been corrected. Tokens stay distinct: the nodes accept none twice.
   */
  forget(): void {
    this.#previous = 0;
  }

  /** Each node's clock minus the own wall clock, in ms, as last heard; null before that. */
  offsets(): readonly (number | null)[] {
    return this.#offsets.map((offset) => offset && offset / MICROSECONDS);
  }

  // The median: a minority of nodes with wrong clocks does not lead the proposals astray.
  #medianOffset(): Microseconds {
    const known = this.#offsets.filter((offset) => offset !== null).sort((a, b) => a - b);
    return known[Math.floor((known.length - 1) / 2)] ?? 0;
  }
}
