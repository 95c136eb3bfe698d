// Proposes fencing tokens. Only the nodes decide: a proposal is a guess that most of them will
// find above every token that they have accepted and within their clocks' window.
import { medianOf } from './quorum.js';
import type { Ensemble } from './ensemble.js';
import type { Environment } from './environment.js';
import type { AcquireAnswer, LockNode } from './lock-node.js';
import type { Microseconds, Milliseconds } from './units.js';

const MICROSECONDS_PER_MS = 1_000;

type StaleAnswer = Extract<AcquireAnswer, { vote: 'stale' }>;

/**
 * How fast a long round is forgotten: each later one takes back this share of the difference. With
 * less, others find their tokens stale for longer; with more, a client far away over an uneven
 * network proposes tokens that are too low when they arrive. docs/FENCING-COSTS.md.
 */
export const LEAD_DECAY = 1 / 8;

/**
 * How many tokens a block has. A proposal with the highest remainder by this is the last of a block
 * and stands for all of it; any other stands for itself. The nodes accept a block as one:
 * PROTOCOL.md section 8. More than calls usually follow each other in hand-overs; after the last
 * token the next call acquires anew.
 */
export const TOKENS_PER_BLOCK = 32;

/**
 * The lowest of the tokens that the proposal of a request stands for: a {@link LockNode} compares
 * this one with those that it has accepted. It records the proposal itself, which is the highest.
 * Source: PROTOCOL.md section 8.
 */
export function lowestTokenOf(proposal: Microseconds): Microseconds {
  const place = proposal % TOKENS_PER_BLOCK;
  return place === TOKENS_PER_BLOCK - 1 ? proposal - place : proposal;
}

/** The proposal that stands for the first block without a token below `lowest`. */
function blockFrom(lowest: Microseconds): Microseconds {
  return Math.ceil(lowest / TOKENS_PER_BLOCK) * TOKENS_PER_BLOCK + TOKENS_PER_BLOCK - 1;
}

/** The first proposal from `lowest` on that stands for itself. */
function singleFrom(lowest: Microseconds): Microseconds {
  return lowestTokenOf(lowest) === lowest ? lowest : lowest + 1;
}

/** Source of one process's token proposals, in microseconds since 1970. */
export class TokenSource {
  readonly #environment: Environment;
  readonly #nodes: readonly LockNode[];
  readonly #clockSkewMax: Microseconds;
  readonly #offsets: (Microseconds | null)[];
  /** What each node's clock showed when it was last heard. */
  readonly #heard: Microseconds[] = [];
  /** The median of the offsets; null until it is wanted again. */
  #offset: Microseconds | null = null;
  /** How long a proposal made now takes to arrive at a quorum of the nodes. */
  #lead: Microseconds = 0;
  #previous: Microseconds = 0;

  constructor({ environment, nodes, options }: Ensemble) {
    this.#environment = environment;
    this.#nodes = nodes;
    this.#clockSkewMax = options.world.clockSkewMax * MICROSECONDS_PER_MS;
    this.#offsets = nodes.map(() => null);
  }

  /**
   * The next proposal: the nodes' time, as far as known, when it will arrive there; above this
   * source's earlier proposals and above `low`, the highest bound with which a node has refused a
   * proposal. If it aimed at the time of sending, clients far away would find every time that
   * nearer ones have had higher tokens meanwhile. With `isBlock` it stands for a block, unless a
   * node has refused a proposal before: a block may not fit into that node's window.
   */
  propose(low: Microseconds, isBlock: boolean): Microseconds {
    const arrival = Math.floor(this.#nodesTime() + this.#lead);
    const next = Math.max(arrival, low + 1, this.#previous + 1);
    this.#previous = isBlock && low === 0 ? blockFrom(next) : singleFrom(next);
    return this.#previous;
  }

  /**
   * Whether the next proposal would be refused there again: a token that the node accepts is too
   * far ahead for most nodes, or one that suits the time of most nodes is too far ahead for it.
   */
  isHopeless({ isAhead, low, nodeTime }: StaleAnswer): boolean {
    const isBehind = isAhead && this.#nodesTime() > nodeTime + this.#clockSkewMax;
    return isBehind || this.#isOutOfReach(low);
  }

  /**
   * Of the bounds with which nodes have refused a proposal, those that the next one must be above.
   * A bound set by a node's clock is left out: it will have moved on before the next proposal
   * arrives, and proposals are aimed at the clocks anyway. A bound out of reach is left out too, if
   * only a minority has such bounds: what suits a node far ahead would never suit the others.
   */
  boundsOf(refusals: readonly StaleAnswer[]): Microseconds[] {
    const known = refusals.filter(({ low, nodeTime }) => low > nodeTime - this.#clockSkewMax);
    const lows = known.map(({ low }) => low);
    const near = lows.filter((low) => !this.#isOutOfReach(low));
    return lows.length - near.length < this.#nodes.length / 2 ? near : lows;
  }

  /**
   * Takes note of how long a round took that a quorum of nodes decided. A clock offset is too small
   * by the answer's time on the way: adding the whole round aims a proposal at its arrival.
   */
  roundTook(duration: Milliseconds): void {
    const lead = Math.min(duration * MICROSECONDS_PER_MS, this.#clockSkewMax / 2);
    this.#lead = Math.max(lead, this.#lead + (lead - this.#lead) * LEAD_DECAY);
  }

  /** Takes note of a node's clock, so that a client with a wrong wall clock gets locks too. */
  learn(node: number, nodeTime: Microseconds): void {
    // The answers of one script call all carry the same time; the first is the nearest to it.
    if (this.#heard[node] === nodeTime) return;
    this.#heard[node] = nodeTime;
    this.#offsets[node] = nodeTime - this.#environment.wallClock() * MICROSECONDS_PER_MS;
    this.#offset = null;
  }

  /**
   * Forgets earlier proposals after a node called one too far ahead: our own clock was ahead and
   * has been corrected, or was set forward while the nodes' clock stands still, as fake timers may
   * do. Tokens stay distinct: the nodes accept none twice.
   */
  forget(): void {
    this.#previous = 0;
    this.#heard.length = 0;
  }

  /** Each node's clock minus our own wall clock, in ms, as last heard; null before that. */
  offsets(): readonly (Milliseconds | null)[] {
    return this.#nodes.map((node, index) => {
      const offset = this.#offsets[index] ?? null;
      // Before the first lock is asked for: as heard when the node was connected.
      return offset === null ? node.status().clockOffset : offset / MICROSECONDS_PER_MS;
    });
  }

  // Whether most nodes would find a token above `low` too far ahead, by their clocks.
  #isOutOfReach(low: Microseconds): boolean {
    return low >= this.#nodesTime() + this.#clockSkewMax;
  }

  // What the clocks of most nodes show now, as far as known.
  #nodesTime(): Microseconds {
    this.#offset ??= this.#medianOffset();
    return this.#environment.wallClock() * MICROSECONDS_PER_MS + this.#offset;
  }

  // The median: a minority of nodes with wrong clocks does not lead the proposals astray.
  #medianOffset(): Microseconds {
    const known = this.offsets().filter((offset) => offset !== null);
    return known.length === 0 ? 0 : medianOf(known) * MICROSECONDS_PER_MS;
  }
}
