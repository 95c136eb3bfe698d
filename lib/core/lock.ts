import { bindToContext } from './environment.js';
import { describeResources, describeVotes, LockLostError, NoQuorumError } from './errors.js';
import { checkNames, checkNumber, checkObject } from './option-checks.js';
import { checkTtl } from './options.js';
import type { LossReason } from './errors.js';
import type { Holding } from './holding.js';
import type { Milliseconds } from './units.js';

/** All options of {@link Lock.assertHeld}. A misspelt one would leave the caller unguarded. */
const ASSERT_OPTIONS = { atLeast: true };

/**
 * A lock, as its holder sees it. Whether it is held is computed from the monotonic clock each
 * time it is asked, so the answer is right even after a long pause of the process. It can still
 * end between the question and what the holder does next: a write that must not come too late
 * carries the {@link fencingToken} as its condition.
 * Source: PROTOCOL.md section 6.
 */
export class Lock implements AsyncDisposable {
  readonly #holding: Holding;
  readonly #ttlMax: Milliseconds;
  #lossSignal: LossSignal | null = null;

  /** @internal Locks are made by `Redlock` alone. */
  constructor(holding: Holding, ttlMax: Milliseconds) {
    this.#holding = holding;
    this.#ttlMax = ttlMax;
  }

  /** What is locked, sorted and without duplicates. */
  get resources(): readonly string[] {
    return this.#holding.request.resources;
  }

  /**
   * A number that grows from each grant of a resource to the next; 0 where `fencing` is off. It
   * counts microseconds since 1970 by the nodes' clocks: a safe integer, not a time to rely on.
   */
  get fencingToken(): number {
    return this.#holding.fencingToken;
  }

  /**
   * The random value that proves to the nodes whose lock it is. Unique for each `acquire`d lock;
   * bodies of one process that hand the lock over to each other share it, but not their tokens.
   */
  get ownerId(): string {
    return this.#holding.request.ownerId;
  }

  /** Whether the lock is held now. Once false, false for ever. */
  get isValid(): boolean {
    return this.#holding.isHeld();
  }

  /** Time the holder may still rely on, in ms; 0 when the lock is not held. Never rounded up. */
  get remaining(): Milliseconds {
    return this.#holding.remaining();
  }

  /**
   * Aborts when the lock is lost, with the {@link LockLostError} as its reason; a release never
   * aborts it. `aborted` and `throwIfAborted()` read the clock, even before the event has fired.
   * After the body has ended, a signal that was read before fires no event, even while
   * `holdAtLeast` keeps the lock. Listeners run in the async context in which the signal was first
   * read.
   */
  get signal(): AbortSignal {
    this.#lossSignal ??= new LossSignal(this.#holding, () => this.lostError());
    return this.#lossSignal.signal;
  }

  /**
   * Throws unless the lock is held now, and may be relied on for `atLeast` ms more (default 0).
   * @throws LockLostError; its reason is `expired` also when the lock is held for less than that.
   * @throws TypeError, RangeError when `atLeast` is not a number of at least 0, or another option
   *   is given.
   */
  assertHeld(options: { readonly atLeast?: Milliseconds | undefined } = {}): void {
    checkObject('options', options);
    checkNames('only options of assertHeld', options, ASSERT_OPTIONS);
    const { atLeast = 0 } = options;
    checkNumber('atLeast', atLeast, 0, Infinity);
    const remaining = this.#holding.remaining();
    if (remaining === 0) throw this.lostError();
    if (remaining >= atLeast) return;
    const left = `is held for ${Math.floor(remaining)} ms more, not ${atLeast}`;
    throw this.#lostError('expired', `${left}: extend it earlier, or use a longer ttl`);
  }

  /**
   * Gives the lock a new lifetime of `ttl` ms, by default the last one it was given. If it has more
   * left, it keeps that. From then on the watchdog, too, gives it this ttl. When this rejects with
   * a `NoQuorumError`, the lock is still held for what remained of it.
   * @throws LockLostError when the lock is not held any more. Also when `maxHold` is over: then
   *   it stays held until its validity ends.
   * @throws NoQuorumError when too few nodes extended it within the node timeout.
   * @throws TypeError, RangeError for a ttl that is not 100 to `ttlMax` whole ms.
   */
  async extend(ttl: Milliseconds = this.#holding.request.ttl): Promise<void> {
    checkTtl(ttl, this.#ttlMax);
    this.#assertExtendable();
    const isRenewed = await this.#holding.extend(ttl);
    if (isRenewed) return;
    // `maxHold` may have ended while it waited for an earlier extension: no node was asked then.
    this.#assertExtendable();
    const votes = this.#holding.lastVotes();
    const message =
      `Could not extend the lock of ${describeResources(this.resources)}: too few nodes did. ` +
      `It is held for another ${Math.floor(this.remaining)} ms. Nodes: ${describeVotes(votes)}`;
    throw new NoQuorumError(message, { resources: this.resources, votes });
  }

  /**
   * Ends the lock: deletes its keys on all nodes, or leaves a body's to the next body of this
   * process. Resolves when a quorum has done so or the node timeout is over; never rejects. A
   * second call, or one for a lost lock, does no harm.
   */
  release(): Promise<void> {
    return this.#holding.release();
  }

  /** {@link release}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  /** @internal Whether the claim ended before its holder ended it. */
  isLost(): boolean {
    return this.#holding.isLost();
  }

  /** @internal Tells the signal's listeners. */
  abortSignal(): void {
    this.#lossSignal?.abort();
  }

  /** @internal Its use has ended: whoever listens to the signal must not stay in memory for it. */
  dropSignal(): void {
    this.#lossSignal = null;
  }

  /** @internal The error that says why the lock is not held any more. */
  lostError(result?: unknown): LockLostError {
    const { lossReason } = this.#holding;
    return this.#lostError(lossReason, `is not held any more: ${explanations[lossReason]}`, result);
  }

  #assertExtendable(): void {
    this.assertHeld();
    if (!this.#holding.isPastMaxHold()) return;
    throw this.#lostError('maxHold', `cannot be extended: ${explanations.maxHold}`);
  }

  #lostError(reason: LossReason, state: string, result?: unknown): LockLostError {
    const { resources } = this;
    const votes = this.#holding.lastVotes();
    const said = votes.length === 0 ? '' : `. Nodes: ${describeVotes(votes)}`;
    const names = describeResources(resources);
    const message = `The lock of ${names} ${state}${said}`;
    return new LockLostError(message, { resources, votes, reason, result });
  }
}

// Created only when `signal` is read: an AbortController costs more than the rest of a lock.
class LossSignal {
  readonly #controller = new AbortController();
  #hasBegun = false;
  /** Tells the listeners in the async context that first read the signal: that of the holder. */
  readonly abort: () => void;

  constructor(holding: Holding, makeReason: () => LockLostError) {
    const { signal } = this.#controller;
    this.abort = bindToContext(() => {
      if (this.#hasBegun) return;
      this.#hasBegun = true;
      this.#controller.abort(makeReason());
    });
    // Not `#hasBegun`: some runtimes ask the signal first, and if it says yes they tell nobody.
    const isAborted = (): boolean => {
      if (holding.isLost()) this.abort();
      return signal.reason !== undefined;
    };
    // Own properties shadow the prototype's, which read a slot that only events change.
    Object.defineProperties(signal, {
      aborted: { get: isAborted },
      throwIfAborted: {
        value: () => {
          if (isAborted()) throw signal.reason;
        },
      },
    });
    isAborted();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }
}

const explanations: Readonly<Record<LossReason, string>> = {
  expired: 'its validity ended before it was extended; use the watchdog or a longer ttl',
  suspended: 'the machine was suspended, or its wall clock was set forward',
  revoked: 'too few nodes still have its keys',
  maxHold: 'its maxHold is over, so it is not extended any more',
  closed: 'the application shut down and shutdownTimeout was spent',
  released: 'its holder released it',
};
