// The locks that this process holds: who is told of their end, and how a shutdown treats them.
// PROTOCOL.md sections 6 and 7.
import { bindToContext, TIMER_ERROR } from './environment.js';
import { describeResources, RedlockClosedError } from './errors.js';
import { Lock } from './lock.js';
import { DELAY_MAX, TTL_MIN } from './options.js';
import { TransientMap } from './transient-map.js';
import type { Care, Succession } from './care.js';
import type { LossReason } from './errors.js';
import type { AcquisitionContext } from './acquisition.js';
import type { Holding } from './holding.js';
import type { Told } from './lock-node.js';
import type { ResolvedAcquire } from './options.js';
import type { TimerHandle } from './environment.js';
import type { Milliseconds } from './units.js';
import type { Waiter } from './waiter.js';

/** How long a shutdown waits for bodies to end after their signals were aborted. */
const ABORT_GRACE: Milliseconds = 1_000;

/** One lock in custody. A class rather than closures: every lock that is acquired makes one. */
class Charge implements Care {
  isWatchdogOn: boolean;
  /** Whether its body has ended, and the nodes keep its resources for as long as it asked. */
  isKeptByNodes = false;
  /** When its release began, on the monotonic clock: from then on nobody claims it. */
  releasedAt: Milliseconds = 0;
  readonly maxHold: Milliseconds;
  readonly holdAtLeast: Milliseconds;

  constructor(
    readonly lock: Lock,
    readonly holding: Holding,
    readonly waiter: Waiter,
    options: ResolvedAcquire,
    readonly custody: Custody,
  ) {
    // One by one: what keeps a resource must not keep the caller's signal in memory for as long.
    this.isWatchdogOn = options.watchdog;
    this.maxHold = options.maxHold;
    this.holdAtLeast = options.holdAtLeast;
  }

  /** Until when its resources are kept at least, on the monotonic clock. */
  get keptUntil(): Milliseconds {
    return this.holding.acquiredAt + this.holdAtLeast;
  }

  onExtended(): void {
    this.custody.context.observer.extended(this.lock);
  }

  onLost(reason: LossReason): void {
    const { lock, holding, waiter, custody } = this;
    const { environment, observer, waitingRoom } = custody.context;
    // A lost lock that was acquired by hand might never be released: it leaves custody now.
    if (!waiter.hasBody) custody.discharge(lock);
    // No loss: the ttl ends it, no sooner than the release would have, which this process missed.
    if (this.isKeptByNodes && reason !== 'revoked') observer.released(lock, this.holdAtLeast);
    else observer.lost(lock, reason, environment.now() - holding.acquiredAt);
    lock.abortSignal();
    waitingRoom.leave(waiter);
  }

  onReleasing(): Succession {
    const { environment, waitingRoom } = this.custody.context;
    this.releasedAt = environment.now();
    const heads = waitingRoom.handOn(this.waiter);
    const next = heads[0];
    if (next === undefined) return 'others';
    // Together they want just what is released, so a single one wants all of it. A lock by hand is
    // not handed over as it is: somebody may look for it, or delete it, by its `ownerId` once it
    // is released. Nor to a call that has tried and was passed since: it asks the nodes again.
    const hasBodies = this.waiter.hasBody && next.hasBody;
    if (hasBodies && heads.length === 1 && next.attempt === null) {
      next.received = this.holding.handOver(next.ttl);
    }
    return next.received === null ? 'ours' : 'handedOver';
  }

  onReleased(wasHeld: boolean, told: Told): void {
    const { lock, holding, releasedAt, custody } = this;
    const { observer, waitingRoom } = custody.context;
    custody.endRetention(this);
    custody.discharge(lock);
    if (wasHeld) observer.released(lock, releasedAt - holding.acquiredAt);
    waitingRoom.onReleased(holding.request.resources, told);
  }
}

/** Looks after all locks of one `Redlock` from the grant to the release. */
export class Custody {
  /** @internal What its charges tell of themselves. */
  readonly context: AcquisitionContext;
  readonly #charges = new TransientMap<Lock, Charge>();
  /** Locks kept although their body has ended, and the timers of their release. */
  readonly #retained = new Map<Charge, TimerHandle>();
  #onIdle: (() => void) | null = null;
  #closing: Promise<void> | null = null;

  constructor(context: AcquisitionContext) {
    this.context = context;
  }

  get isClosed(): boolean {
    return this.#closing !== null;
  }

  get heldCount(): number {
    const charges = [...this.#charges.values(), ...this.#retained.keys()];
    return charges.filter(({ holding }) => holding.isHeld()).length;
  }

  /** @throws RedlockClosedError after {@link close} was called. */
  assertOpen(resources: readonly string[]): void {
    if (this.isClosed) throw closedError(resources);
  }

  /**
   * Takes a granted lock into custody; one with a body is kept until the body has ended.
   * @throws RedlockClosedError when the shutdown has begun meanwhile; the lock is given back.
   */
  take(holding: Holding, waiter: Waiter, options: ResolvedAcquire): Lock {
    if (this.isClosed) {
      void holding.release();
      throw closedError(holding.request.resources);
    }
    const lock = new Lock(holding, this.context.options.ttlMax);
    const charge = new Charge(lock, holding, waiter, options, this);
    this.#charges.set(lock, charge);
    holding.startCare(charge);
    return lock;
  }

  /** The body has ended: releases its lock, or keeps it until `holdAtLeast` ms have passed. */
  async endBody(lock: Lock): Promise<void> {
    const charge = this.#charges.get(lock);
    if (charge === undefined) return;
    const { holding, keptUntil } = charge;
    if (keptUntil <= this.context.environment.now() || !holding.isHeld()) await holding.release();
    else this.#retain(charge);
  }

  close(): Promise<void> {
    // Noted before anybody is told: whoever is told may ask for a lock, or close in turn.
    this.#closing ??= Promise.resolve().then(() => this.#shutDown());
    return this.#closing;
  }

  /** @internal A charge has ended. */
  discharge(lock: Lock): void {
    this.#charges.delete(lock);
    if (this.#charges.size === 0) this.#onIdle?.();
  }

  // Released by a timer; should the process end first, by the ttl. In the async context of the
  // start, as it may take hours, and must not keep in memory what belongs to the call.
  readonly #retain = bindToContext((charge: Charge): void => {
    const { environment } = this.context;
    const { lock, holding, keptUntil } = charge;
    const release = (): void => void holding.release();
    const delay = Math.min(keptUntil - environment.now() + TIMER_ERROR, DELAY_MAX);
    charge.isWatchdogOn = true;
    this.#retained.set(charge, environment.startTimer(delay, release, false));
    holding.startCare(charge);
    void this.#keepOnNodes(charge);
    this.discharge(lock);
    lock.dropSignal();
  });

  // Has the nodes keep the lock until then, whatever becomes of this process. What is beyond a ttl,
  // or finds no quorum, is left to the watchdog.
  async #keepOnNodes(charge: Charge): Promise<void> {
    const { environment, options } = this.context;
    const { holding, keptUntil } = charge;
    // A busy process may be late with the release by as much as with an extension.
    const duration = keptUntil - environment.now() + holding.request.ttl / 3;
    const ttl = duration / (1 - options.driftFactor);
    const isRenewed = await this.#extendFor(holding, ttl);
    charge.isKeptByNodes = isRenewed && ttl <= options.ttlMax;
    charge.isWatchdogOn = !charge.isKeptByNodes;
  }

  async #extendFor(holding: Holding, duration: Milliseconds): Promise<boolean> {
    if (duration <= holding.remaining()) return true;
    const { ttlMax } = this.context.options;
    return holding.extend(Math.min(ttlMax, Math.max(TTL_MIN, Math.ceil(duration))));
  }

  /** @internal Nothing keeps a charge any longer whose body has ended. */
  endRetention(charge: Charge): void {
    const timer = this.#retained.get(charge);
    if (timer === undefined) return;
    this.#retained.delete(charge);
    this.context.environment.stopTimer(timer);
  }

  async #shutDown(): Promise<void> {
    const { options, waitingRoom } = this.context;
    waitingRoom.interruptAll(closedError);
    await this.#untilIdle(options.shutdownTimeout);
    for (const { holding } of this.#charges.values()) holding.lose('closed');
    await this.#untilIdle(ABORT_GRACE);
    const retained = [...this.#retained.keys()];
    await Promise.all(retained.map((charge) => this.#leaveToTtl(charge)));
  }

  #untilIdle(limit: Milliseconds): Promise<void> {
    const { environment } = this.context;
    return new Promise((resolve) => {
      if (this.#charges.size === 0) {
        resolve();
        return;
      }
      const finish = (): void => {
        environment.stopTimer(timer);
        this.#onIdle = null;
        resolve();
      };
      const timer = environment.startTimer(limit, finish, true);
      this.#onIdle = finish;
    });
  }

  // Extends the lock for what is left of `holdAtLeast`, as far as a ttl reaches, and abandons it.
  async #leaveToTtl(charge: Charge): Promise<void> {
    const { holding, keptUntil } = charge;
    const left = keptUntil - this.context.environment.now();
    if (left <= 0 || !holding.isHeld()) {
      await holding.release();
      return;
    }
    this.endRetention(charge);
    await this.#extendFor(holding, left);
    holding.abandon();
  }
}

function closedError(resources: readonly string[]): RedlockClosedError {
  const what = `Could not lock ${describeResources(resources)}`;
  return new RedlockClosedError(
    `${what}: the application is shutting down and grants no more locks`,
    { resources },
  );
}
