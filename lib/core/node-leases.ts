import { leaseUntil, validUntilOf } from './quorum.js';
import type { Environment } from './environment.js';
import type { Milliseconds } from './units.js';

/** When a round began, on both clocks, read before its first byte was sent. */
export interface RoundStart {
  /** Monotonic time. */
  readonly startedAt: Milliseconds;
  /** Wall clock minus monotonic time: it grows when the machine sleeps. */
  readonly clockGap: Milliseconds;
}

/** Reads both clocks: call it before the first byte of a round is sent. */
export function startRound(environment: Environment): RoundStart {
  const startedAt = environment.now();
  return { startedAt, clockGap: environment.wallClock() - startedAt };
}

interface NodeLease {
  until: Milliseconds;
  clockGap: Milliseconds;
  revokedAt: Milliseconds;
}

/**
 * What each node has promised to one lock, and what follows: until when the lock is valid.
 * Source: PROTOCOL.md section 3.
 */
export class NodeLeases {
  readonly #leases: readonly NodeLease[];
  readonly #quorum: number;
  readonly #driftFactor: number;
  #validUntil: Milliseconds = -Infinity;
  #clockGap: Milliseconds = Infinity;

  constructor(nodeCount: number, quorum: number, driftFactor: number) {
    this.#leases = Array.from({ length: nodeCount }, () => ({
      until: -Infinity,
      clockGap: Infinity,
      revokedAt: -Infinity,
    }));
    this.#quorum = quorum;
    this.#driftFactor = driftFactor;
  }

  /** Until when a quorum of nodes keeps the keys; never later than they really do. */
  get validUntil(): Milliseconds {
    return this.#validUntil;
  }

  /** The smallest clock gap at the start of a round that the validity rests on. */
  get clockGap(): Milliseconds {
    return this.#clockGap;
  }

  /** Counts a node's grant of `ttl`. Leases only grow, in whatever order answers arrive. */
  grant(node: number, start: RoundStart, ttl: Milliseconds): void {
    const lease = this.#leases[node];
    // A key that was created again had been missing: whoever found it missing may hold a lease
    // on it. Only a round that begins after that was known can count it again.
    if (lease === undefined || start.startedAt <= lease.revokedAt) return;
    const until = leaseUntil(start.startedAt, ttl, this.#driftFactor);
    if (until <= lease.until) return;
    lease.until = until;
    lease.clockGap = start.clockGap;
    this.#settle();
  }

  /** Takes a node's lease back: its keys were found missing, created again, or another's. */
  revoke(node: number, now: Milliseconds): void {
    const lease = this.#leases[node];
    if (lease === undefined) return;
    lease.until = -Infinity;
    lease.revokedAt = now;
    this.#settle();
  }

  #settle(): void {
    this.#validUntil = validUntilOf(
      this.#leases.map((lease) => lease.until),
      this.#quorum,
    );
    this.#clockGap = Infinity;
    for (const lease of this.#leases) {
      if (lease.until >= this.#validUntil) {
        this.#clockGap = Math.min(this.#clockGap, lease.clockGap);
      }
    }
  }
}
