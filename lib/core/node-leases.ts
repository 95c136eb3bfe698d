import { leaseUntil, validUntilOf } from './quorum.js';
import type { Environment } from './environment.js';
import type { Milliseconds } from './units.js';

/** What a node grants in one round: a lifetime, and the earliest time at which it began. */
export class RoundTerms {
  /** Monotonic time, read before the first byte was sent. */
  readonly startedAt: Milliseconds;
  /** Until when a grant of this round may be relied on, on the monotonic clock. */
  readonly until: Milliseconds;
  /**
   * How far the wall clock may be ahead of the monotonic clock before the machine counts as
   * having slept since.
   */
  readonly clockGapMax: Milliseconds;

  /** The terms of a round that gives the keys `ttl`; made before its first byte is sent. */
  constructor(
    environment: Environment,
    readonly ttl: Milliseconds,
    driftFactor: number,
  ) {
    // In this order: a pause between the readings makes the guard stricter, never laxer.
    const wallClock = environment.wallClock();
    this.startedAt = environment.now();
    this.until = leaseUntil(this.startedAt, ttl, driftFactor);
    this.clockGapMax = wallClock - this.startedAt + Math.max(1_000, ttl * driftFactor);
  }
}

/**
 * The suspend guard: whether the wall clock has run ahead of the monotonic clock since a round
 * began, as it does when the machine sleeps. A forward step of the wall clock looks the same, and
 * ends a claim early; no step prolongs one. `now` is the monotonic time, read just before: a pause
 * since then makes the guard stricter, never laxer. Source: PROTOCOL.md section 2.
 */
export function hasSlept(
  environment: Environment,
  now: Milliseconds,
  clockGapMax: Milliseconds,
): boolean {
  return environment.wallClock() - now > clockGapMax;
}

/**
 * What each node has promised to one lock, and what follows: until when the lock is valid.
 * Source: PROTOCOL.md section 3.
 */
export class NodeLeases {
  readonly #quorum: number;
  /** What each node has granted last; null where it has not, or where that was taken back. */
  readonly #terms: (RoundTerms | null)[];
  /** When the grant of each node was last taken back; null where none was. */
  #revokedAt: Milliseconds[] | null = null;
  #validUntil: Milliseconds = -Infinity;
  #clockGapMax: Milliseconds = Infinity;

  /** `granted`: what each node has granted so far, or null. It is the leases' own from now on. */
  constructor(granted: (RoundTerms | null)[], quorum: number) {
    this.#quorum = quorum;
    this.#terms = granted;
    this.#recompute();
  }

  /** Until when a quorum of nodes keeps the keys; never later than they really do. */
  get validUntil(): Milliseconds {
    return this.#validUntil;
  }

  /** The strictest suspend guard among the leases that the validity rests on. */
  get clockGapMax(): Milliseconds {
    return this.#clockGapMax;
  }

  /** Counts a node's grant. Leases only grow, in whatever order answers arrive. */
  grant(node: number, terms: RoundTerms): void {
    // A re-created key had been missing, and whoever found it missing may hold a lease on it. Only
    // a round that begins after the loss was known can count it again.
    if (terms.startedAt <= (this.#revokedAt?.[node] ?? -Infinity)) return;
    if (terms.until <= untilOf(this.#terms[node])) return;
    this.#terms[node] = terms;
    this.#recompute();
  }

  /** Takes a node's lease back: its keys were found missing, created again, or another's. */
  revoke(node: number, now: Milliseconds): void {
    this.#terms[node] = null;
    this.#revokedAt ??= [];
    this.#revokedAt[node] = now;
    this.#recompute();
  }

  #recompute(): void {
    this.#validUntil = validUntilOf(this.#terms.map(untilOf), this.#quorum);
    this.#clockGapMax = Infinity;
    for (const terms of this.#terms) {
      if (terms === null || terms.until < this.#validUntil) continue;
      this.#clockGapMax = Math.min(this.#clockGapMax, terms.clockGapMax);
    }
  }
}

function untilOf(terms: RoundTerms | null | undefined): Milliseconds {
  return terms?.until ?? -Infinity;
}
