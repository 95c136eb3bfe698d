// Pure rules of the quorum: no clock, no state. Tested exhaustively for N = 1 to 5.
import type { Milliseconds } from './units.js';

/** g of PROTOCOL.md: covers the millisecond resolution of a node's expiry, at both ends. */
const GUARD: Milliseconds = 2;

/** How many nodes said what in one round. */
export interface Ballot {
  readonly granted: number;
  readonly taken: number;
  /** The most of `taken` that name the same owner. */
  readonly takenByOne: number;
  readonly stale: number;
  readonly quarantined: number;
  readonly failed: number;
  /** Those of `failed` that time does not heal. */
  readonly misconfigured: number;
}

/**
 * What a round has come to.
 * - `open`: undecided. `granted`: a quorum.
 * - `stale`: only the token proposal was in the way. `taken`: others hold it.
 * - `noQuorum`: too few nodes answered. `misconfigured`: and time does not heal that.
 */
export type Verdict = 'open' | 'granted' | 'stale' | 'taken' | 'noQuorum' | 'misconfigured';

/**
 * How many nodes make a majority of all `nodeCount` configured: any two majorities share a node.
 * Source: Redis "Distributed Locks", The Redlock Algorithm, step 3.
 */
export function majorityOf(nodeCount: number): number {
  return Math.floor(nodeCount / 2) + 1;
}

/**
 * Until when one node's grant may be relied on, on the monotonic clock, in ms: `startedAt` is the
 * time read before the first byte of its round was sent. Never later than the node's own expiry.
 * Source: Redis "Distributed Locks", Safety Arguments:
 * MIN_VALIDITY = TTL - (T2 - T1) - CLOCK_DRIFT.
 */
export function leaseUntil(
  startedAt: Milliseconds,
  ttl: Milliseconds,
  driftFactor: number,
): Milliseconds {
  return startedAt + ttl * (1 - driftFactor) - GUARD;
}

/**
 * Until when a lock may be relied on: the `quorum`-th largest lease, because until then that many
 * nodes keep its keys. -Infinity where fewer nodes ever granted.
 */
export function validUntilOf(leases: readonly Milliseconds[], quorum: number): Milliseconds {
  return nthLargest(leases, quorum);
}

/** The median; of an even number the lower of the two in the middle. -Infinity of none. */
export function medianOf(values: readonly number[]): number {
  return nthLargest(values, majorityOf(values.length));
}

// Asked at each attempt and each grant: for a handful of nodes, comparing all pairs costs less
// than sorting.
function nthLargest(values: readonly number[], n: number): number {
  let largest = -Infinity;
  for (const value of values) {
    let count = 0;
    for (const other of values) if (other >= value) count += 1;
    if (count >= n && value > largest) largest = value;
  }
  return largest;
}

/**
 * Judges a round: decided as soon as a quorum granted it, or none can any more. In the latter case
 * it is open, while other nodes may still answer, until a quorum names one owner: only then is it
 * known whether the vote was split or too few could vote.
 */
export function judge(ballot: Ballot, nodeCount: number): Verdict {
  const quorum = majorityOf(nodeCount);
  const answered =
    ballot.granted + ballot.taken + ballot.stale + ballot.quarantined + ballot.failed;
  const outstanding = nodeCount - answered;
  if (ballot.granted >= quorum) return 'granted';
  if (ballot.granted + outstanding >= quorum) return 'open';
  if (nodeCount - ballot.misconfigured < quorum) return 'misconfigured';
  if (nodeCount - ballot.failed - ballot.quarantined < quorum) return 'noQuorum';
  if (ballot.granted + ballot.stale + outstanding >= quorum) return 'stale';
  if (ballot.takenByOne < quorum && outstanding > 0) return 'open';
  return 'taken';
}
