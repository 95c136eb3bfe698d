// The locks that this process holds: who is told of their end, and how a shutdown treats them.
// PROTOCOL.md sections 6 and 7.
import { describeResources, RedlockClosedError } from './errors.js';
import { Lock } from './lock.js';
import { Watchdog } from './watchdog.js';
import type { AcquisitionContext } from './acquisition.js';
import type { Care, Holding } from './holding.js';
import type { ResolvedAcquire } from './options.js';
import type { TimerHandle } from './environment.js';
import type { Milliseconds } from './units.js';
import type { Waiter } from './waiter.js';

/** How long a shutdown waits for bodies to end after their signals were aborted. */
const ABORT_GRACE: Milliseconds = 1_000;

interface Charge {
  readonly holding: Holding;
  readonly care: Care;
}

interface Retention {
  readonly until: Milliseconds;
  readonly timer: TimerHandle;
}

/** Looks after all locks of one `Redlock` from the grant to the release. */
export class Custody {
  readonly #context: AcquisitionContext;
  readonly #watchdog: Watchdog;
  readonly #charges = new Map<Lock, Charge>();
  /** Locks kept by `holdAtLeast` although their body has ended, and the timers of their release. */
  readonly #retained = new Map<Holding, Retention>();
  #onIdle: (() => void) | null = null;
  #closing: Promise<void> | null = null;

  constructor(context: AcquisitionContext) {
    this.#context = context;
    this.#watchdog = new Watchdog(context.environment);
  }

  get isClosed(): boolean {
    return this.#closing !== null;
  }

  get heldCount(): number {
    return this.#charges.size + this.#retained.size;
  }

  /** @throws RedlockClosedError after {@link close} was called. */
  assertOpen(resources: readonly string[]): void {
    if (this.isClosed) throw closedError(resources);
  }

  /**
   * Takes a granted lock into custody; one with a body is kept until the body has ended.
   * @throws RedlockClosedError where the shutdown has begun meanwhile; the lock is given back.
   */
  take(holding: Holding, waiter: Waiter, options: ResolvedAcquire, hasBody: boolean): Lock {
    if (this.isClosed) {
      this.#context.waitingRoom.leave(waiter);
      void holding.release();
      throw closedError(holding.request.resources);
    }
    const lock = new Lock(holding, this.#context.options.ttlMax);
    const care = this.#careOf(lock, holding, waiter, options, hasBody);
    this.#charges.set(lock, { holding, care });
    holding.keep(care);
    return lock;
  }

  /** @throws LockLostError, with the body's result, when the lock was lost before this moment. */
  assertKept(lock: Lock, result: unknown): void {
    if (lock.isLost()) throw lock.lostError(result);
  }

  /** The body has ended: releases its lock, or keeps it until `holdAtLeast` ms have passed. */
  async endBody(lock: Lock, holdAtLeast: Milliseconds): Promise<void> {
    const charge = this.#charges.get(lock);
    if (charge === undefined) return;
    const { holding, care } = charge;
    const until = holding.acquiredAt + holdAtLeast;
    if (until <= this.#context.environment.now() || !holding.isHeld()) await holding.release();
    else this.#retain(lock, holding, care, until);
  }

  close(): Promise<void> {
    this.#closing ??= this.#shutDown();
    return this.#closing;
  }

  #careOf(
    lock: Lock,
    holding: Holding,
    waiter: Waiter,
    options: ResolvedAcquire,
    hasBody: boolean,
  ): Care {
    const { environment, observer, waitingRoom } = this.#context;
    return {
      watchdog: this.#watchdog,
      isExtended: options.watchdog,
      maxHold: options.maxHold,
      onExtended: () => {
        observer.extended(lock);
      },
      onLost: (reason) => {
        // Nobody may ever release a lock that was acquired by hand and then lost.
        if (!hasBody) this.#discharge(lock);
        observer.lost(lock, reason, environment.now() - holding.acquiredAt);
        lock.abortSignal();
        waitingRoom.leave(waiter);
      },
      onReleasing: () => waitingRoom.handOn(waiter),
      onReleased: (wasHeld, listeners) => {
        this.#retained.delete(holding);
        this.#discharge(lock);
        if (wasHeld) observer.released(lock, environment.now() - holding.acquiredAt);
        waitingRoom.settle(lock.resources, listeners);
      },
    };
  }

  #discharge(lock: Lock): void {
    this.#charges.delete(lock);
    if (this.#charges.size === 0) this.#onIdle?.();
  }

  // Kept by the watchdog and released by a timer; should the process end first, by the ttl.
  #retain(lock: Lock, holding: Holding, care: Care, until: Milliseconds): void {
    const { environment } = this.#context;
    const release = (): void => {
      void holding.release();
    };
    const timer = environment.startTimer(until - environment.now(), release, false);
    this.#retained.set(holding, { until, timer });
    holding.keep({ ...care, isExtended: true, maxHold: Infinity });
    this.#discharge(lock);
  }

  async #shutDown(): Promise<void> {
    const { options, waitingRoom } = this.#context;
    waitingRoom.interruptAll(closedError);
    await this.#untilIdle(options.shutdownTimeout);
    for (const { holding } of [...this.#charges.values()]) holding.lose('closed');
    await this.#untilIdle(ABORT_GRACE);
    const retained = [...this.#retained];
    await Promise.all(retained.map(([holding, kept]) => this.#leave(holding, kept)));
  }

  #untilIdle(limit: Milliseconds): Promise<void> {
    const { environment } = this.#context;
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

  // Gives the nodes the time that is left of `holdAtLeast`, as far as a ttl reaches, and goes.
  async #leave(holding: Holding, kept: Retention): Promise<void> {
    const { environment, options } = this.#context;
    const left = Math.ceil(kept.until - environment.now());
    if (left <= 0 || !holding.isHeld()) {
      await holding.release();
      return;
    }
    this.#retained.delete(holding);
    environment.stopTimer(kept.timer);
    const ttl = Math.min(options.ttlMax, Math.max(100, left));
    if (left > holding.remaining()) await holding.extend(ttl);
    holding.abandon();
  }
}

function closedError(resources: readonly string[]): RedlockClosedError {
  const what = `Could not lock ${describeResources(resources)}`;
  return new RedlockClosedError(
    `${what}: the application is shutting down and grants no lock any more`,
    { resources },
  );
}
