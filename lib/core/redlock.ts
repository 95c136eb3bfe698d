// What the application calls: acquire, tryAcquire, using, inspect, status, close.
import { Acquisition } from './acquisition.js';
import { systemEnvironment } from './environment.js';
import { LockTakenError, RedlockError } from './errors.js';
import { inspectResource } from './inspection.js';
import { silentObserver } from './observer.js';
import { membersOf } from './option-checks.js';
import { resolveAcquire, resolveOptions } from './options.js';
import { majorityOf } from './quorum.js';
import { checkKeys, checkResource, normalizeResources } from './resources.js';
import { RoundTimers } from './round-timers.js';
import { TokenSource } from './fencing.js';
import { Custody } from './custody.js';
import { WaitingRoom } from './waiting.js';
import { Watchdog } from './watchdog.js';
import type { AcquisitionContext } from './acquisition.js';
import type { Environment } from './environment.js';
import type { ResourceState } from './inspection.js';
import type { Lock } from './lock.js';
import type { LockNode, NodeStatus } from './lock-node.js';
import type { RedlockObserver } from './observer.js';
import type { AcquireOptions, RedlockOptions, ResolvedOptions, UsingOptions } from './options.js';
import type { Milliseconds } from './units.js';

/** What runs while a lock is held. */
export type LockedBody<T> = (lock: Lock) => T | Promise<T>;

/** The state of a `Redlock` and its nodes. */
export interface RedlockStatus {
  readonly isClosed: boolean;
  /**
   * What the `ownerId` of each lock of this process in this lock domain begins with, colon
   * included. Tells which process {@link ResourceState} names as the owner.
   */
  readonly ownerPrefix: string;
  /** How many nodes make a majority. */
  readonly quorum: number;
  readonly nodes: readonly NodeStatus[];
  /** How many locks this process holds in this lock domain. */
  readonly held: number;
  /** How many calls of this process wait for a lock of this domain or try to get one. */
  readonly waiting: number;
}

/** What a {@link Redlock} and its nodes get from their surroundings. */
export interface RedlockPorts {
  /** @default the process's clocks, timers and randomness */
  readonly environment?: Environment;
  /** @default nobody is told */
  readonly observer?: RedlockObserver;
}

/**
 * Distributed locks over a quorum of independent nodes.
 * The nodes belong to whoever made them: `close()` closes none of them.
 * Source: Redis "Distributed Locks"; PROTOCOL.md.
 */
export class Redlock {
  readonly options: ResolvedOptions;
  readonly #context: AcquisitionContext;
  readonly #custody: Custody;
  readonly #ownerPrefix: string;

  /** @throws TypeError, RangeError for wrong options, no nodes, or the same node twice. */
  constructor(nodes: readonly LockNode[], options: RedlockOptions = {}, ports: RedlockPorts = {}) {
    if (nodes.length === 0) {
      throw new RangeError('Expected nodes to name at least one node, got an empty array');
    }
    if (new Set(nodes).size < nodes.length) {
      throw new RangeError('Expected nodes to be distinct, got the same node twice');
    }
    const environment = ports.environment ?? systemEnvironment;
    const ownerPrefix = `${environment.randomId()}:`;
    let owners = 0;
    this.#ownerPrefix = ownerPrefix;
    this.options = resolveOptions(options, nodes.length);
    const ensemble = {
      nodes: [...nodes],
      quorum: majorityOf(nodes.length),
      options: this.options,
      environment,
      observer: ports.observer ?? silentObserver,
      roundTimers: new RoundTimers(environment),
      watchdog: new Watchdog(environment),
    };
    this.#context = {
      ...ensemble,
      tokens: new TokenSource(ensemble),
      waitingRoom: new WaitingRoom(ensemble),
      nextOwnerId: () => ownerPrefix + (owners += 1).toString(36),
    };
    this.#custody = new Custody(this.#context);
  }

  /**
   * Locks all of `resources` or none, for `ttl` ms (whole, 100 to `ttlMax`), and waits for them
   * up to `wait`. Nobody but the caller extends the lock unless `watchdog` is on. Release it.
   * @param held Resources that the caller already holds, here and in the methods below: the call
   *   is queued before those that wait for them.
   * @throws LockTakenError, NoQuorumError, LockExpiredError after `wait`; RedlockClosedError;
   *   the reason of `options.signal`; TypeError, RangeError for bad input.
   */
  acquire(
    resources: string | readonly string[],
    ttl?: Milliseconds,
    options: AcquireOptions = {},
    held: readonly string[] = [],
  ): Promise<Lock> {
    return this.#acquire('acquire', resources, ttl, options, held);
  }

  /**
   * Tries as {@link acquire} with `wait: 0`, but resolves to null when others hold one of the
   * resources, or other calls of this process already wait for one.
   * @throws NoQuorumError, LockExpiredError at once, and the rest as {@link acquire}.
   */
  async tryAcquire(
    resources: string | readonly string[],
    ttl?: Milliseconds,
    options: Omit<AcquireOptions, 'wait'> = {},
    held: readonly string[] = [],
  ): Promise<Lock | null> {
    const given = { ...membersOf('options', options), wait: 0 };
    try {
      return await this.acquire(resources, ttl, given, held);
    } catch (error) {
      // The signal's reason may itself be a LockTakenError, of another lock.
      if (error instanceof LockTakenError && error !== given.signal?.reason) return null;
      throw error;
    }
  }

  /**
   * Runs `body` while holding `resources`, extended by the watchdog, and releases them when what
   * the body returned has settled. The body's own error comes out unchanged.
   * @throws LockLostError when the lock was lost before a body that succeeded had ended; the
   *   body's result is on the error. Also when the lock was lost before the body began, and
   *   whatever {@link acquire} throws: in these cases the body has not run.
   */
  async using<T>(
    resources: string | readonly string[],
    options: UsingOptions,
    body: LockedBody<T>,
    held: readonly string[] = [],
  ): Promise<T> {
    const lock = await this.#acquire('using', resources, options.ttl, options, held);
    try {
      // The bodies of locks granted in one tick begin one after the other, however long each of
      // them keeps the process busy: this lock may be lost by now.
      if (lock.isLost()) throw lock.lostError();
      const result = await body(lock);
      if (lock.isLost()) throw lock.lostError(result);
      return result;
    } finally {
      await this.#custody.endBody(lock);
    }
  }

  /**
   * Asks all nodes who holds `resource`; resolves after at most one node timeout.
   * @throws TypeError, RangeError for a bad name.
   */
  async inspect(resource: string): Promise<ResourceState> {
    const name = checkResource(resource, 'resource');
    checkKeys([name], this.options.world.keyPrefix, 'resource');
    return inspectResource(this.#context, name);
  }

  /** The state as last heard; asks no node. */
  status(): RedlockStatus {
    return {
      isClosed: this.#custody.isClosed,
      ownerPrefix: this.#ownerPrefix,
      quorum: this.#context.quorum,
      nodes: this.#context.nodes.map((node) => node.status()),
      held: this.#custody.heldCount,
      waiting: this.#context.waitingRoom.size,
    };
  }

  /**
   * Shuts down: refuses new and waiting calls, gives running bodies up to `shutdownTimeout` to
   * end, then aborts their signals. Locks whose body has ended are released.
   * Never rejects; a second call waits for the first.
   * Source: PROTOCOL.md section 7.
   */
  close(): Promise<void> {
    return this.#custody.close();
  }

  async #acquire(
    kind: 'acquire' | 'using',
    input: string | readonly string[],
    ttl: Milliseconds | undefined,
    given: UsingOptions,
    held: readonly string[],
  ): Promise<Lock> {
    const resources = normalizeResources(input);
    checkKeys(resources, this.options.world.keyPrefix, 'resources');
    const options = resolveAcquire(this.options, kind, ttl, given);
    const acquisition = new Acquisition(this.#context, resources, options, kind === 'using');
    try {
      this.#custody.assertOpen(resources);
      const holding = await acquisition.run(held);
      const lock = this.#custody.take(holding, acquisition.waiter, options);
      this.#context.observer.acquired(lock, acquisition.waited(), acquisition.attempts);
      return lock;
    } catch (error) {
      const { attempts } = acquisition;
      acquisition.giveUp(error);
      // The signal's reason may be a RedlockError too, of another lock.
      const isAborted = error === given.signal?.reason;
      // The error was made where the last answer came in; the stack here shows who asked.
      if (error instanceof RedlockError && !isAborted) {
        Error.captureStackTrace(error, this.#acquire);
      }
      this.#context.observer.refused(resources, error, acquisition.waited(), attempts, isAborted);
      throw error;
    }
  }
}
