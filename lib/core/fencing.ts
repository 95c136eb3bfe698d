// Proposes fencing tokens. Only the nodes decide: a proposal is a guess that most of them will
// find above every token that they have accepted and within their clocks' window.
import { medianOf } from './quorum.js';
import type { Ensemble } from './ensemble.js';
import type { Environment } from './environment.js';
import type { AcquireAnswer, LockNode } from './lock-node.js';
import type { Microseconds, Milliseconds } from './units.js';

const MICROSECONDS = 1_000;

type StaleAnswer = Extract<AcquireAnswer, { vote: 'stale' }>;

/**
 * How soon a long round is forgotten: by this share of what it took longer, with each round. Later,
 * and others find their tokens stale; sooner, and who is far away over an uneven way proposes too
 * low. docs/FENCING-COSTS.md.
 */
export const FORGETTING = 1 / 8;

/**
 * A proposal whose remainder by this is the highest stands for a whole block of tokens, of which it
 * is the last; any other stands for itself. The nodes accept a block as one: PROTOCOL.md section 8.
 * It has one for each of those who hand a lock over to each other, and a few more.
 */
export const TOKENS_PER_BLOCK = 32;

/**
 * The lowest of the tokens that the proposal of a request stands for: what a {@link LockNode} holds
 * against those that it has accepted. It records the proposal itself, which is the highest.
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
  /** How much later than now a proposal of now arrives at a quorum of the nodes. */
  #lead: Microseconds = 0;
  #previous: Microseconds = 0;

  constructor({ environment, nodes, options }: Ensemble) {
    this.#environment = environment;
    this.#nodes = nodes;
    this.#clockSkewMax = options.world.clockSkewMax * MICROSECONDS;
    this.#offsets = nodes.map(() => null);
  }

  /**
   * The next proposal: the nodes' time, as far as known, when it arrives there; above this
   * source's earlier proposals and above `low`, the highest bound that a node has refused a
   * proposal with. Aimed at the time when it is sent, clients far away would find that those near
   * have had higher tokens meanwhile, every time. With `isBlock` it stands for a block, unless a
   * node has refused one before: there may be no room for it in that node's window.
   */
  propose(low: Microseconds, isBlock: boolean): Microseconds {
    this.#offset ??= this.#medianOffset();
    const now = this.#environment.wallClock() * MICROSECONDS;
    const arrival = Math.floor(now + this.#offset + this.#lead);
    const next = Math.max(arrival, low + 1, this.#previous + 1);
    this.#previous = isBlock && low === 0 ? blockFrom(next) : singleFrom(next);
    return this.#previous;
  }

  /** Whether most nodes would find a token above `low` too far ahead, by their clocks. */
  isOutOfReach(low: Microseconds): boolean {
    this.#offset ??= this.#medianOffset();
    const now = this.#environment.wallClock() * MICROSECONDS + this.#offset;
    return low >= now + this.#clockSkewMax;
  }

  /**
   * Which of the bounds that nodes have refused a proposal with the next one has to be above. One
   * that a node's clock sets has moved on before the next arrives: proposals are aimed at the
   * clocks anyway. One that is out of reach is not followed either, where a minority has such: what
   * suits a node far ahead would never suit the others.
   */
  boundsOf(refusals: readonly StaleAnswer[]): Microseconds[] {
    const known = refusals.filter(({ low, nodeTime }) => low > nodeTime - this.#clockSkewMax);
    const lows = known.map(({ low }) => low);
    const near = lows.filter((low) => !this.isOutOfReach(low));
    return lows.length - near.length < this.#nodes.length / 2 ? near : lows;
  }

  /**
   * Takes note of how long a round took that a quorum of nodes decided. An offset is too small by
   * the way of the answer: with the whole round added, a proposal is aimed at its arrival.
   */
  roundTook(duration: Milliseconds): void {
    const lead = Math.min(duration * MICROSECONDS, this.#clockSkewMax / 2);
    this.#lead = Math.max(lead, this.#lead + (lead - this.#lead) * FORGETTING);
  }

  /** Takes note of a node's clock, so that a client with a wrong wall clock gets locks too. */
  learn(node: number, nodeTime: Microseconds): void {
    // The answers of one script call all carry the same time; the first is the nearest to it.
    if (this.#heard[node] === nodeTime) return;
    this.#heard[node] = nodeTime;
    this.#offsets[node] = nodeTime - this.#environment.wallClock() * MICROSECONDS;
    this.#offset = null;
  }

  /**
   * Forgets earlier proposals after a node called one too far ahead: the own clock was ahead and
   * has been corrected, or was set forward while that of the nodes stands still, as fake timers may
   * do. Tokens stay distinct: the nodes accept none twice.
   */
  forget(): void {
    this.#previous = 0;
    this.#heard.length = 0;
  }

  /** Each node's clock minus the own wall clock, in ms, as last heard; null before that. */
  offsets(): readonly (Milliseconds | null)[] {
    return this.#nodes.map((node, index) => {
      const offset = this.#offsets[index] ?? null;
      // Heard when it was connected, where no lock was asked for yet.
      return offset === null ? node.status().clockOffset : offset / MICROSECONDS;
    });
  }

  // The median: a minority of nodes with wrong clocks does not lead the proposals astray.
  #medianOffset(): Microseconds {
    const known = this.offsets().filter((offset) => offset !== null);
    return known.length === 0 ? 0 : medianOf(known) * MICROSECONDS;
  }
}
