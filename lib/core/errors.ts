import { isObject } from './option-checks.js';
import type { Vote } from './lock-node.js';
import type { Milliseconds } from './units.js';

/** What one node said in the round that decided. */
export interface NodeVote {
  /** The node's name: scheme, host, port and database, without credentials. */
  readonly node: string;
  /**
   * `none`: this node had not answered when the round was decided or its time was over; or it was
   * not asked, and the message says so.
   * `revoked`: an extension found that the node had lost a key, or that a key was another owner's.
   */
  readonly vote: Vote | 'revoked' | 'none';
  /** The node's reason, for people; empty where the vote says it all. */
  readonly message: string;
}

/** Stable codes of the errors; safe to compare, log and count. */
export type RedlockErrorCode =
  'LOCK_TAKEN' | 'NO_QUORUM' | 'LOCK_EXPIRED' | 'LOCK_LOST' | 'LOCK_REENTRY' | 'REDLOCK_CLOSED';

/**
 * Why a lock is no longer held.
 * - `expired`: its validity ended before an extension succeeded.
 * - `suspended`: the wall clock ran ahead of the monotonic clock; the machine slept, or the clock
 *   was set forward, and the two cannot be told apart.
 * - `revoked`: too few nodes still have its keys.
 * - `maxHold`: it was held for longer than `maxHold` and was not extended any more.
 * - `closed`: the application shut down and `shutdownTimeout` was spent.
 * - `released`: its holder released it. Only seen when the lock is used after that.
 */
export type LossReason = 'expired' | 'suspended' | 'revoked' | 'maxHold' | 'closed' | 'released';

/** What every {@link RedlockError} carries. */
export interface RedlockErrorDetails {
  readonly resources: readonly string[];
  readonly votes?: readonly NodeVote[];
  readonly cause?: unknown;
}

const brand = Symbol.for('nestjs-locked.error');

/** What somebody who reads the error can do; docs/ERRORS.md says more. */
const nextSteps: Readonly<Record<RedlockErrorCode, string>> = {
  LOCK_TAKEN: 'Try again later, or let the call wait longer (wait)',
  NO_QUORUM: 'Look at what each node says, here and in RedlockService.status()',
  LOCK_EXPIRED:
    'Use a longer ttl, or look for what delays the nodes or blocks the event loop of this process',
  LOCK_LOST: 'Stop whatever relies on it: others may hold it now or soon',
  LOCK_REENTRY:
    'Acquire it in one place only, or join a lock that covers all of it with { reentrant: true }',
  REDLOCK_CLOSED: 'Send the call to another replica, or again after the restart',
};

/**
 * An outcome of locking that is not a programmer's mistake. The message ends with what to do and
 * where to read more.
 * `instanceof` works across the ESM and the CJS copy of the package: it compares the `code`.
 * For an error class of your own, extend one of those below, which say what to do.
 */
export abstract class RedlockError extends Error {
  /** The code that all instances have. */
  declare static readonly code: RedlockErrorCode;
  abstract readonly code: RedlockErrorCode;
  /** What was to be locked, sorted. */
  readonly resources: readonly string[];
  /**
   * What each node said in the deciding round, which may be that of an earlier call of this
   * process; empty where no node was asked.
   */
  readonly votes: readonly NodeVote[];
  readonly [brand] = true;

  /** Takes a message without its full stop: what to do and where to read more come after it. */
  constructor(message: string, details: RedlockErrorDetails) {
    const advised = `${message}. ${advice(new.target.code)}`;
    super(advised, 'cause' in details ? { cause: details.cause } : undefined);
    this.resources = [...details.resources];
    this.votes = details.votes ?? [];
  }

  /**
   * Recognises an error of either copy of the package: {@link RedlockError} by a brand, a class
   * with a `code` of its own by that code, and any other subclass by its prototype.
   */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (this !== RedlockError) return hasInstance(this, value);
    return isBranded(value);
  }
}

/** Others hold a resource, or other calls of this process were first, and `wait` was spent. */
export class LockTakenError extends RedlockError {
  static override readonly code = 'LOCK_TAKEN';
  readonly code = LockTakenError.code;
  override readonly name = 'LockTakenError';
  /** When a quorum of nodes may be free again, in ms; null where that is unknown. Not a promise. */
  readonly retryAfter: Milliseconds | null;
  /**
   * Those of `resources` that were found taken, sorted. Each node names at most one, so others may
   * be taken too. If calls of this process were first, those that they were first for. Empty when
   * unknown.
   */
  readonly taken: readonly string[];

  /** As {@link RedlockError}, and with `retryAfter` in ms, or null, and with what was `taken`. */
  constructor(
    message: string,
    details: RedlockErrorDetails & {
      retryAfter: Milliseconds | null;
      taken?: readonly string[];
    },
  ) {
    super(message, details);
    this.retryAfter = details.retryAfter;
    this.taken = [...(details.taken ?? [])];
  }
}

/** Too few nodes could vote; the message and `votes` say what each of them said. */
export class NoQuorumError extends RedlockError {
  static override readonly code = 'NO_QUORUM';
  readonly code = NoQuorumError.code;
  override readonly name = 'NoQuorumError';
  /**
   * When a quorum of nodes may vote again, in ms, if it is quarantine that keeps them from voting;
   * else null. Not a promise.
   */
  readonly retryAfter: Milliseconds | null;

  /** As {@link RedlockError}, and with `retryAfter` in ms, by default null. */
  constructor(
    message: string,
    details: RedlockErrorDetails & { retryAfter?: Milliseconds | null },
  ) {
    super(message, details);
    this.retryAfter = details.retryAfter ?? null;
  }
}

/** A quorum granted the lock, but so late that too little of its validity was left. */
export class LockExpiredError extends RedlockError {
  static override readonly code = 'LOCK_EXPIRED';
  readonly code = LockExpiredError.code;
  override readonly name = 'LockExpiredError';
}

/**
 * The lock was held and is no longer. When `assertHeld({ atLeast })` throws this, or `extend` after
 * `maxHold`, the lock may still be held, but for less time than was asked.
 */
export class LockLostError extends RedlockError {
  static override readonly code = 'LOCK_LOST';
  readonly code = LockLostError.code;
  override readonly name = 'LockLostError';
  readonly reason: LossReason;
  /**
   * What the body returned, if it finished all the same; else undefined. Not enumerable: loggers
   * show the other properties of an error.
   */
  declare readonly result: unknown;

  /** As {@link RedlockError}, and with why it was lost and what its body returned. */
  constructor(
    message: string,
    details: RedlockErrorDetails & { reason: LossReason; result?: unknown },
  ) {
    super(message, details);
    this.reason = details.reason;
    Object.defineProperty(this, 'result', { value: details.result });
  }
}

/** The same async context already holds the resource: waiting would be waiting for itself. */
export class LockReentryError extends RedlockError {
  static override readonly code = 'LOCK_REENTRY';
  readonly code = LockReentryError.code;
  override readonly name = 'LockReentryError';
}

/** The application is shutting down; no lock is granted any more. */
export class RedlockClosedError extends RedlockError {
  static override readonly code = 'REDLOCK_CLOSED';
  readonly code = RedlockClosedError.code;
  override readonly name = 'RedlockClosedError';
}

/** One line that tells each node's vote: `redis://a:6379 granted, redis://b:6379 failed (…)`. */
export function describeVotes(votes: readonly NodeVote[]): string {
  return votes.map(describeVote).join(', ');
}

function describeVote({ node, vote, message }: NodeVote): string {
  if (vote === 'none') return `${node} ${message === '' ? 'had not answered yet' : message}`;
  return `${node} ${vote}${message === '' ? '' : ` (${message})`}`;
}

/** How many resources a message names: a thousand of them would fill a log with each error. */
const NAMED_MAX = 10;

/** The resources as a message names them: `"sku:1", "sku:2"`; of many, the first. */
export function describeResources(resources: readonly string[]): string {
  const named = resources.slice(0, NAMED_MAX).map((resource) => JSON.stringify(resource));
  const others = resources.length - named.length;
  return named.join(', ') + (others > 0 ? ` and ${others} more` : '');
}

function advice(code: RedlockErrorCode): string {
  const section = code.toLowerCase().replaceAll('_', '-');
  // In the installed package, so that it fits the installed version.
  return `${nextSteps[code]} (docs/ERRORS.md#${section} of nestjs-locked)`;
}

// A class that names a code of its own is recognised by it; a user's subclass by its prototype.
function hasInstance(constructor: object, value: unknown): boolean {
  if (!Object.hasOwn(constructor, 'code') || !('code' in constructor)) {
    return Function.prototype[Symbol.hasInstance].call(constructor, value);
  }
  return isBranded(value) && 'code' in value && value.code === constructor.code;
}

function isBranded(value: unknown): value is object {
  return isObject(value) && brand in value;
}
