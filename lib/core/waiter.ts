import type { CoalescedTimers } from './coalesced-timers.js';
import type { Environment } from './environment.js';
import type { Holding } from './holding.js';
import type { Place } from './line.js';
import type { Milliseconds } from './units.js';

/**
 * One call's place in the queues of the resources that it wants, from its arrival to the end of
 * its lock. It sleeps until woken, interrupted, or out of patience.
 */
export class Waiter {
  readonly resources: readonly string[];
  /** The ttl that it wants. */
  readonly ttl: Milliseconds;
  /** Whether it wants the lock for a body: such a one may be handed over as it is. */
  readonly hasBody: boolean;
  /** Whether its call has the lock: it keeps its place, so that nobody behind it tries in vain. */
  isHolding = false;
  /** Whether its caller holds locks: others may wait for these, in whatever process. */
  isInside = false;
  /** Its places in its queues, in the order of its resources, from when it enters them. */
  places: readonly Place[] = [];
  /** Whether it has left its queues. */
  hasLeft = false;
  /** Whether it was woken and has not gone on since: waking it again changes nothing. */
  isWoken = false;
  /**
   * Whether it tries while a release of what it wants is under way, or at once after such an
   * attempt: perhaps nobody else was told, as nodes do not tell of what is locked again at once.
   */
  isSuccessor = false;
  /** The lock, where the call before it in this process has handed it over. */
  received: Holding | null = null;
  /** What is cancelled when the waiter is interrupted while it does not sleep. */
  attempt: { cancel(): void } | null = null;
  readonly #environment: Environment;
  #interruption: { readonly reason: unknown } | null = null;
  #endPause: (() => void) | null = null;

  constructor(
    environment: Environment,
    resources: readonly string[],
    ttl: Milliseconds,
    hasBody: boolean,
  ) {
    this.#environment = environment;
    this.resources = resources;
    this.ttl = ttl;
    this.hasBody = hasBody;
  }

  /** Whether it sleeps, or was just woken. */
  get isPausing(): boolean {
    return this.#endPause !== null;
  }

  /**
   * Whether calls go before it whose callers hold locks. While it waits for one resource it keeps
   * its places in the queues of others, and who has the one may wait for the caller of such a call.
   */
  get mayBePassed(): boolean {
    return this.resources.length > 1 && !this.isInside && !this.isHolding;
  }

  get isInterrupted(): boolean {
    return this.#interruption !== null;
  }

  /**
   * Resolves after `delay` ms, by a timer of its own or one of `timers`, or sooner when woken; at
   * once when woken since the last pause. Resolves to whether it was woken: then it goes on even if
   * interrupted since, because it may have been woken in place of others.
   * @throws the reason of the interruption.
   */
  async pause(delay: Milliseconds, timers: CoalescedTimers | null = null): Promise<boolean> {
    this.throwIfInterrupted();
    if (!this.isWoken) {
      this.isSuccessor = false;
      await new Promise<void>((resolve) => {
        const stopTimer = timers?.start(delay, resolve) ?? this.#startTimer(delay, resolve);
        this.#endPause = () => {
          stopTimer();
          resolve();
        };
      });
      this.#endPause = null;
    }
    const wasWoken = this.isWoken;
    this.isWoken = false;
    if (!wasWoken) this.throwIfInterrupted();
    return wasWoken;
  }

  /** Ends the pause, or makes the next one short: a wake-up is never lost. */
  wake(): void {
    this.isWoken = true;
    this.#endPause?.();
  }

  /** Makes the waiter give up with `reason`: its caller's abort, or a shutdown. */
  interrupt(reason: unknown): void {
    if (this.#interruption !== null) return;
    this.#interruption = { reason };
    this.#endPause?.();
    this.attempt?.cancel();
  }

  /** @throws the reason of the interruption. */
  throwIfInterrupted(): void {
    if (this.#interruption !== null) throw this.#interruption.reason;
  }

  #startTimer(delay: Milliseconds, callback: () => void): () => void {
    const timer = this.#environment.startTimer(delay, callback, true);
    return () => this.#environment.stopTimer(timer);
  }
}
