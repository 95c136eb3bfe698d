// What the library reports. To Nest's Logger: changes of nodes, lost locks, and calls that find no
// quorum. To diagnostics channels: everything, for metrics and tracing. Contention is not logged:
// it is what locks are for.
import { channel, type Channel } from 'node:diagnostics_channel';

import { bindToContext, inMicrotask, type Environment } from '../core/environment.js';
import { describeVotes, NoQuorumError, type LossReason } from '../core/errors.js';
import type { Lock } from '../core/lock.js';
import type { NodeStatus } from '../core/lock-node.js';
import type { RedlockObserver, RoundOperation } from '../core/observer.js';
import type { Milliseconds } from '../core/units.js';
import { redlockLogger } from './redlock.logger.js';
import { defaultDomain } from './redlock.tokens.js';

/**
 * Published on `nestjs-locked:acquire` for each call for a lock, whether or not it got one. Not for
 * one that joins a held lock, or is refused with a `LockReentryError` or for bad input.
 */
export interface AcquireMessage {
  /** Name of the lock domain, `default` unless the module was given another. */
  readonly redlock: string;
  readonly resources: readonly string[];
  /** From the call to its outcome, in ms. */
  readonly waited: Milliseconds;
  /** How often the nodes were asked; 0 where they were not, as for a lock that was handed over. */
  readonly attempts: number;
  /** Why there is no lock; undefined where there is one. */
  readonly error: unknown;
  /** Whether the caller gave up: `error` is then the reason of its signal, of whatever type. */
  readonly isAborted: boolean;
  /** Whose lock it is; null where there is none. */
  readonly ownerId: string | null;
  readonly fencingToken: number | null;
}

/** Published on `nestjs-locked:extend` each time a quorum of nodes extended a lock. */
export interface ExtendMessage {
  readonly redlock: string;
  readonly resources: readonly string[];
  readonly ownerId: string;
  /** How long the lock is valid from now on, in ms. */
  readonly remaining: Milliseconds;
}

/**
 * Published on `nestjs-locked:release` for each lock that its holder released, or that its ttl
 * ended after `holdAtLeast` because this process was late.
 */
export interface ReleaseMessage {
  readonly redlock: string;
  readonly resources: readonly string[];
  readonly ownerId: string;
  /** From the acquisition to when the release began, in ms. */
  readonly heldFor: Milliseconds;
}

/** Published on `nestjs-locked:lost` for each lock that was lost before its release. */
export interface LostMessage {
  readonly redlock: string;
  readonly resources: readonly string[];
  readonly ownerId: string;
  readonly reason: LossReason;
  /** From the acquisition to when the loss was noticed, in ms. */
  readonly heldFor: Milliseconds;
}

/**
 * Published on `nestjs-locked:round` for each round, when it was decided. Not for one that its
 * caller broke off, or that one node decided in place of all, after a split vote.
 */
export interface RoundMessage {
  readonly redlock: string;
  readonly operation: RoundOperation;
  readonly resources: readonly string[];
  /** From the first byte to the decision, in ms. */
  readonly duration: Milliseconds;
  /** Whether a quorum of nodes granted what was asked. */
  readonly isGranted: boolean;
}

/**
 * Published on `nestjs-locked:node` for each change of a node; once a minute for a node that is
 * suspended and resumes over and over.
 */
export interface NodeMessage {
  readonly redlock: string;
  readonly status: NodeStatus;
  /** One sentence for people. */
  readonly message: string;
  readonly isTrouble: boolean;
}

/** The message of each channel, by the part of the channel's name after `nestjs-locked:`. */
export interface ChannelMessages {
  readonly acquire: AcquireMessage;
  readonly extend: ExtendMessage;
  readonly release: ReleaseMessage;
  readonly lost: LostMessage;
  readonly round: RoundMessage;
  readonly node: NodeMessage;
}

const channels: Readonly<Record<keyof ChannelMessages, Channel>> = {
  acquire: channel('nestjs-locked:acquire'),
  extend: channel('nestjs-locked:extend'),
  release: channel('nestjs-locked:release'),
  lost: channel('nestjs-locked:lost'),
  round: channel('nestjs-locked:round'),
  node: channel('nestjs-locked:node'),
};

/** An observer that logs and publishes for the lock domain `redlock`. */
export function createObserver(redlock: string, environment: Environment): RedlockObserver {
  // The usual single domain needs no name in every line.
  const prefix = redlock === defaultDomain ? '' : `[${redlock}] `;
  const logLoss = createLossLog(prefix, environment);
  const logOutage = createOutageLog(prefix, environment);
  return {
    // Nothing is read or built unless somebody listens: these run on every acquisition.
    acquired(lock, waited, attempts) {
      if (!channels.acquire.hasSubscribers) return;
      const { resources, ownerId, fencingToken } = lock;
      const outcome = { error: undefined, isAborted: false, ownerId, fencingToken };
      publish('acquire', { redlock, resources, waited, attempts, ...outcome });
    },
    refused(resources, error, waited, attempts, isAborted) {
      if (error instanceof NoQuorumError && !isAborted) logOutage(error);
      if (!channels.acquire.hasSubscribers) return;
      const outcome = { error, isAborted, ownerId: null, fencingToken: null };
      publish('acquire', { redlock, resources, waited, attempts, ...outcome });
    },
    extended(lock) {
      if (!channels.extend.hasSubscribers) return;
      const { resources, ownerId, remaining } = lock;
      publish('extend', { redlock, resources, ownerId, remaining });
    },
    released(lock, heldFor) {
      if (!channels.release.hasSubscribers) return;
      const { resources, ownerId } = lock;
      publish('release', { redlock, resources, ownerId, heldFor });
    },
    lost(lock, reason, heldFor) {
      logLoss(reason, lock);
      if (!channels.lost.hasSubscribers) return;
      const { resources, ownerId } = lock;
      publish('lost', { redlock, resources, ownerId, reason, heldFor });
    },
    roundDecided(operation, resources, duration, isGranted) {
      if (!channels.round.hasSubscribers) return;
      publish('round', { redlock, operation, resources, duration, isGranted });
    },
    nodeChanged: createNodeReport(redlock, prefix),
  };
}

/** Frozen, as the lock and requests that are still under way use the same array of names. */
function publish<Name extends Exclude<keyof ChannelMessages, 'node'>>(
  name: Name,
  message: ChannelMessages[Name],
): void {
  Object.freeze(message.resources);
  channels[name].publish(message);
}

/**
 * Reports a node's change to log and channel, in the async context of the start. In that of the
 * request that met the change, loggers and traces would take it for part of the request.
 */
function createNodeReport(redlock: string, prefix: string): RedlockObserver['nodeChanged'] {
  return bindToContext((status: NodeStatus, text: string, isTrouble: boolean) => {
    const line = `${prefix}${status.name}: ${text}`;
    if (isTrouble) redlockLogger.warn(line);
    else redlockLogger.log(line);
    if (!channels.node.hasSubscribers) return;
    const message: NodeMessage = { redlock, status, message: text, isTrouble };
    channels.node.publish(message);
  });
}

/** How long further lost locks are only counted after one was logged. */
const LOSS_PERIOD: Milliseconds = 1_000;

/**
 * Logs a lost lock at once, and then how many more were lost in the second after it. Nodes that die
 * take thousands of locks with them: a line for each would hold up the process just when it has to
 * tell their holders.
 */
function createLossLog(
  prefix: string,
  environment: Environment,
): (reason: LossReason, lock: Lock) => void {
  const unlogged = new Map<LossReason, number>();
  let isCounting = false;
  // Not which ones: resource names may reveal users, and logs go far. The channel has the names.
  const warn = (what: string): void =>
    redlockLogger.warn(`${prefix}Lost ${what}. The channel nestjs-locked:lost names resources`);
  // In the context of the start: the losses belong to many requests.
  const logUnlogged = bindToContext((): void => {
    isCounting = false;
    for (const [reason, count] of unlogged) warn(`${count} more: ${reason}`);
    unlogged.clear();
  });
  return (reason, lock) => {
    if (isCounting) {
      unlogged.set(reason, (unlogged.get(reason) ?? 0) + 1);
      return;
    }
    isCounting = true;
    environment.startTimer(LOSS_PERIOD, logUnlogged, false);
    // In a microtask: a logger that throws must not keep the holder from being told.
    inMicrotask(() => {
      const said = describeVotes(lock.lostError().votes) || 'none asked';
      warn(`a lock: ${reason}. Nodes: ${said}`);
    });
  };
}

/** How long further calls that find no quorum are only counted after one was logged. */
const OUTAGE_PERIOD: Milliseconds = 60_000;

/**
 * Logs a call that found no quorum; the next such line says how many more there were. Most
 * transports log none of their errors, and nodes may disagree, or be slow, without any of them
 * having changed.
 */
function createOutageLog(prefix: string, environment: Environment): (error: NoQuorumError) => void {
  let loggedAt: Milliseconds = -Infinity;
  let unlogged = 0;
  return ({ votes }) => {
    const now = environment.now();
    if (now - loggedAt < OUTAGE_PERIOD) {
      unlogged += 1;
      return;
    }
    // The previous line may be days old.
    const times =
      unlogged > 0
        ? ` ${unlogged} more found none in the minute after the previous such line.`
        : '';
    loggedAt = now;
    unlogged = 0;
    // Not the error's own message, which names resources.
    const line =
      `${prefix}A call for a lock found no quorum. Nodes: ${describeVotes(votes)}.${times} ` +
      'See docs/ERRORS.md#no-quorum of nestjs-locked';
    inMicrotask(() => redlockLogger.warn(line));
  };
}
