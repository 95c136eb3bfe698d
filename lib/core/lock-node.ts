// PORT: one independent node of the quorum.
//
// The contract, which `test/nodes/lock-node.contract.ts` runs against every kind of node:
// - An operation calls back at most once and never before it has returned; it never throws.
//   A node that cannot know the outcome says `failed`, with `mayHold` when a key may be there.
//   Silence is allowed: whoever asks keeps a deadline of its own.
// - Operations that one caller addresses to a node take effect in the order of the calls, so
//   that a release always follows the acquire that it undoes. A release that cannot be delivered
//   is kept (until 1.1 times its ttl has passed) and delivered before anything else.
// - `acquire` takes all resources or none, in one atomic step with its vote.
// - Wake-ups are advice: one may be lost, doubled or forged. Whoever listens polls as well.
// - Node time never runs back by more than `world.clockSkewMax`.
import { hasMethods } from './option-checks.js';
import type { Microseconds, Milliseconds } from './units.js';

/** What all clients of the same locks must agree on. Source: PROTOCOL.md, "Same world". */
export interface World {
  /** Put before every key. */
  readonly keyPrefix: string;
  /** Whether fencing tokens are checked and recorded by the nodes. */
  readonly fencing: boolean;
  /** S: how far the clocks of nodes may differ, and step back; whole ms. */
  readonly clockSkewMax: Milliseconds;
  /** R: for how long, at least, a node remembers the highest token of a resource; whole ms. */
  readonly fenceRetention: Milliseconds;
  /** M: for how long a restarted node's votes do not count; whole ms; 0 turns quarantine off. */
  readonly quarantine: Milliseconds;
}

/** What every operation on a lock names. */
export interface OwnerRequest {
  readonly world: World;
  /** Distinct and sorted, without the key prefix. */
  readonly resources: readonly string[];
  /** Unique, and without white space. */
  readonly ownerId: string;
  /**
   * The fencing token P that this owner proposed, or the last of a block of them: from
   * {@link lowestTokenOf} up to it, all are accepted or none. 0 where `world.fencing` is off.
   */
  readonly token: Microseconds;
  /** Lifetime given to the keys (for a release: the longest they were given), whole ms. */
  readonly ttl: Milliseconds;
}

/**
 * What one node says to one request for a lock.
 * - `granted`: stored, and the vote counts.
 * - `taken`: another owner, `ownerId`, holds one of the resources, for `remaining` ms of its ttl
 *   (-1: unknown). `nth` is the resource's place, from 0. Those after it were not looked at.
 * - `stale`: the token, or the lowest of its block, is not above `low`, the highest that may ever
 *   have been accepted (`isAhead`: it is not within the node's clock window).
 * - `quarantined`: stored, but the node restarted too recently for its vote to count.
 * - `failed`: an error, or an unknown outcome; `mayHold` when the keys may be stored all the same.
 *
 * `nodeTime` is when the node decided, by its clock, or up to 0.1 ms later; without fencing it may
 * be 0, as nobody asks for it.
 */
export type AcquireAnswer =
  | { readonly vote: 'granted'; readonly nodeTime: Microseconds }
  | {
      readonly vote: 'taken';
      readonly remaining: Milliseconds;
      readonly nth: number;
      readonly ownerId: string;
    }
  | {
      readonly vote: 'stale';
      readonly isAhead: boolean;
      readonly low: Microseconds;
      readonly nodeTime: Microseconds;
    }
  | { readonly vote: 'quarantined'; readonly remaining: Milliseconds }
  | FailedAnswer;

/** A vote in one word; see {@link AcquireAnswer}. */
export type Vote = AcquireAnswer['vote'];

/**
 * What one node says to an extension.
 * - `granted`: every key was still this owner's and lives at least `ttl` from now; the vote counts.
 * - `quarantined`: the same, but the node's votes do not count for `remaining` ms.
 * - `revoked`: a key was missing (and was created again where nobody holds it), or is another's.
 */
export type ExtendAnswer =
  | { readonly vote: 'granted' }
  | { readonly vote: 'quarantined'; readonly remaining: Milliseconds }
  | { readonly vote: 'revoked' }
  | FailedAnswer;

/** A release, and whether it tells those who listen. */
export interface ReleaseRequest extends OwnerRequest {
  /**
   * Whether processes that listen for the resources are told when keys were deleted. False when
   * a call of the same process goes next: the listeners would try in vain. So they would after a
   * release whose caller locks the same again in the same tick: a node need not tell of that.
   */
  readonly wakes: boolean;
}

/** Who was told of a release. */
export interface Told {
  /** How many processes, the one that released not counted. */
  readonly listeners: number;
  /**
   * How many of these are overdue: they listen for `redlock:overdue:` and the resource's name, too.
   * 0 from a node that does not count them.
   */
  readonly overdue: number;
}

/** Where nobody listens, or nobody was told. */
export const NOBODY: Told = Object.freeze({ listeners: 0, overdue: 0 });

/** Of two, the one where more are overdue, or as many and more were told. */
export function mostOf(one: Told, other: Told): Told {
  const more = other.overdue - one.overdue || other.listeners - one.listeners;
  return more > 0 ? other : one;
}

/**
 * Put before the name of a resource, makes the name that a process listens for, besides the
 * resource, while it is overdue there: so nodes can count such processes. No resource has such a
 * name, and nothing is told of it.
 */
export const OVERDUE = 'redlock:overdue:';

/**
 * What one node says to a release: `done` also where there was nothing to delete. Of several
 * resources, it says who was told of the one where most are overdue.
 */
export type ReleaseAnswer = ({ readonly vote: 'done' } & Told) | FailedAnswer;

/** Is told of the releases of one resource on one node. */
export interface WakeListener {
  /** Whether every release is heard from now on, or perhaps none. Called when that changes. */
  onLive(isLive: boolean): void;
  /** The resource was released, and all who listen were told. */
  onWake(told: Told): void;
}

/**
 * Who holds a resource on one node; `ownerId` is null where nobody does. `remaining` ms are left of
 * its ttl (0: nobody holds it; -1: no ttl). `refusal` is why the node would not lock it now, such
 * as want of memory; empty where it would, or nobody knows.
 */
export type InspectAnswer =
  | {
      readonly vote: 'found';
      readonly ownerId: string | null;
      readonly remaining: Milliseconds;
      readonly refusal: string;
    }
  | FailedAnswer;

/** An operation that did not work, or whose outcome nobody knows. */
export interface FailedAnswer {
  readonly vote: 'failed';
  /** True when the operation may have taken effect all the same: its answer was lost or odd. */
  readonly mayHold: boolean;
  /** True for what time does not heal: a wrong password, a missing right, a refused node. */
  readonly isMisconfiguration: boolean;
  /** What happened, for people: the server's error line or the state of the connection. */
  readonly message: string;
}

/** The state of a node, for `status()` and for people. */
export interface NodeStatus {
  readonly name: string;
  /** `suspended`: connected but silent for too long. `refused`: unfit, see `findings`. */
  readonly state: 'up' | 'connecting' | 'down' | 'suspended' | 'refused';
  /** For how long, in ms, the node's votes will not count yet, as last heard; 0 when they do. */
  readonly quarantineRemaining: Milliseconds;
  /** Node clock minus our own wall clock in ms, as last heard; null before the first answer. */
  readonly clockOffset: Milliseconds | null;
  /** What is wrong with it, one sentence each: its configuration, or that it refuses locks. */
  readonly findings: readonly string[];
}

/** One independent Redis master, or something that behaves like one. */
export interface LockNode {
  /** Names the node in errors and logs; holds no password. */
  readonly name: string;
  /**
   * Stores all resources for `ttl` ms or none, in one step with its vote; `granted` again to the
   * owner that has them already. Calls back at most once, never before it returned; never throws.
   */
  acquire(request: OwnerRequest, onAnswer: (answer: AcquireAnswer) => void): void;
  /**
   * Gives `ttl` ms from now to all keys that have less left, and re-creates those that are missing;
   * changes nothing where one is another owner's. Calls back as {@link acquire} does.
   */
  extend(request: OwnerRequest, onAnswer: (answer: ExtendAnswer) => void): void;
  /**
   * Deletes those of the keys that are this owner's. With fencing, an acquisition with the same
   * token that arrives later is refused, which undoes one whose answer was lost. A release that
   * cannot be delivered is kept until 1.1 times its ttl has passed. Calls back as {@link acquire}
   * does.
   */
  release(request: ReleaseRequest, onAnswer: (answer: ReleaseAnswer) => void): void;
  /**
   * Asks who holds `resource`, and whether it could be locked; locks nothing. Calls back as
   * {@link acquire} does.
   */
  inspect(world: World, resource: string, onAnswer: (answer: InspectAnswer) => void): void;
  /** Tells `listener` of releases of `resource` until the returned function is called. */
  listen(world: World, resource: string, listener: WakeListener): () => void;
  /** The state of the node as last heard; asks nothing, and never throws. */
  status(): NodeStatus;
}

/** Whether `value` looks like a {@link LockNode}. */
export function isLockNode(value: unknown): value is LockNode {
  const verbs = ['acquire', 'extend', 'release', 'inspect', 'listen', 'status'];
  return hasMethods(value, verbs) && 'name' in value && typeof value.name === 'string';
}
