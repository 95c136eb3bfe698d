// One call's way to a lock: its turn in the queue, then attempts, each after a wake-up or a random
// pause, until it is granted, `wait` is spent, or somebody interrupts. PROTOCOL.md sections 4.8
// and 10.
import { Attempt } from './attempt.js';
import { nodeTimeoutOf } from './options.js';
import { queuedError, refusalError } from './refusals.js';
import { Waiter } from './waiter.js';
import type { AttemptResult } from './attempt.js';
import type { Ensemble } from './ensemble.js';
import type { RedlockError } from './errors.js';
import type { TokenSource } from './fencing.js';
import type { Holding } from './holding.js';
import type { ResolvedAcquire, RetryDelay } from './options.js';
import type { Microseconds, Milliseconds } from './units.js';
import type { WaitingRoom } from './waiting.js';

/** What the acquisitions of one `Redlock` share. */
export interface AcquisitionContext extends Ensemble {
  readonly tokens: TokenSource;
  readonly waitingRoom: WaitingRoom;
  /** An owner id that no other attempt, process or time has. */
  nextOwnerId(): string;
}

type FailedAttempt = Exclude<AttemptResult, { verdict: 'granted' }>;

/** How long a call sleeps at most while it would hear of a release: wake-ups may get lost. */
const POLL: RetryDelay = { min: 40, max: 60 };

/** Attempts that follow at once when only the token proposal was in the way. */
const STALE_RETRIES_MAX = 3;

/** One call for a lock. */
export class Acquisition {
  readonly resources: readonly string[];
  readonly #context: AcquisitionContext;
  readonly #options: ResolvedAcquire;
  readonly #startedAt: Milliseconds;
  readonly #deadline: Milliseconds;
  /** The call's place in its process's queues, until the lock has ended. */
  readonly waiter: Waiter;
  #attempts = 0;

  constructor(context: AcquisitionContext, resources: readonly string[], options: ResolvedAcquire) {
    this.resources = resources;
    this.#context = context;
    this.#options = options;
    this.#startedAt = context.environment.now();
    this.#deadline = this.#startedAt + options.wait;
    this.waiter = new Waiter(context.environment, resources);
  }

  /** How many attempts were made so far. */
  get attempts(): number {
    return this.#attempts;
  }

  /** How long the call has lasted so far, in ms. */
  waited(): Milliseconds {
    return this.#context.environment.now() - this.#startedAt;
  }

  /** @throws RedlockError, or the reason of whoever interrupted; then nothing stays locked. */
  async run(): Promise<Holding> {
    const { signal } = this.#options;
    const { waitingRoom } = this.#context;
    signal?.throwIfAborted();
    const onAbort = (): void => {
      this.waiter.interrupt(signal?.reason);
    };
    signal?.addEventListener('abort', onAbort);
    waitingRoom.enter(this.waiter);
    try {
      await this.#untilTurn();
      const holding = await this.#untilGranted();
      waitingRoom.hold(this.waiter);
      return holding;
    } catch (error) {
      waitingRoom.leave(this.waiter);
      throw error;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  async #untilTurn(): Promise<void> {
    const { waitingRoom } = this.#context;
    for (;;) {
      const delay = waitingRoom.delayOf(this.waiter);
      if (delay === 0) return;
      const patience = this.#patience();
      if (patience <= 0) {
        // Passes nobody over: one attempt, so that the error tells what the nodes say.
        if (waitingRoom.isNext(this.waiter)) return;
        throw queuedError(this.resources, this.waited());
      }
      await this.waiter.pause(Math.min(delay, patience));
    }
  }

  async #untilGranted(): Promise<Holding> {
    // The first attempt has all the time that it needs, for `wait: 0` means one attempt; those
    // after it keep to `wait`.
    const fullTimeout = nodeTimeoutOf(this.#context.options, this.#options.ttl);
    let timeout = fullTimeout;
    let refused: FailedAttempt | null = null;
    for (;;) {
      const result = await this.#tryOnce(timeout, tieBreakerOf(refused));
      if (result.verdict === 'granted') return result.holding;
      // Silence in an attempt that was cut short says less than the attempt before it.
      const isCutShort = timeout < fullTimeout && result.verdict === 'noQuorum';
      if (refused === null || !isCutShort) refused = result;
      // Time heals no misconfiguration: say it now rather than after `wait`.
      const isHopeless = result.verdict === 'misconfigured';
      if (isHopeless || this.#patience() <= 0) throw this.#refusal(refused);
      await this.#rest(result);
      if (this.#patience() <= 0) throw this.#refusal(refused);
      timeout = Math.min(fullTimeout, Math.max(1, this.#patience()));
    }
  }

  async #rest({ verdict }: FailedAttempt): Promise<void> {
    const { waitingRoom } = this.#context;
    const { retryDelay } = this.#options;
    // Who waits for a resource that others hold is told of its release. As soon as no release
    // goes unheard it is woken, to try once more: one in between was not heard.
    if (verdict !== 'taken' || !waitingRoom.listen(this.waiter)) {
      await this.#pause(this.#randomOf(retryDelay));
      return;
    }
    const wasWoken = await this.#pause(Math.max(this.#randomOf(POLL), retryDelay.min));
    const raceDelay = wasWoken ? Math.round(waitingRoom.raceDelay(this.waiter)) : 0;
    if (raceDelay > 0) await this.#pause(raceDelay);
  }

  async #pause(delay: Milliseconds): Promise<boolean> {
    const patience = this.#patience();
    return patience > 0 && this.waiter.pause(Math.min(delay, patience));
  }

  // An attempt, and up to three more at once while only the token was in the way.
  async #tryOnce(timeout: Milliseconds, tieBreaker: number | null): Promise<AttemptResult> {
    let low: Microseconds = 0;
    this.#context.waitingRoom.startAttempt(this.waiter);
    for (let retries = 0; ; retries += 1) {
      const result = await this.#attempt(low, timeout, tieBreaker);
      if (result.verdict !== 'stale' || retries === STALE_RETRIES_MAX) return result;
      const stale = result.answers.filter((answer) => answer?.vote === 'stale');
      low = Math.max(low, ...stale.map((answer) => answer.low));
      if (stale.some((answer) => answer.isAhead)) this.#context.tokens.forget();
    }
  }

  async #attempt(
    low: Microseconds,
    timeout: Milliseconds,
    tieBreaker: number | null,
  ): Promise<AttemptResult> {
    const { options, tokens } = this.#context;
    const { ttl } = this.#options;
    const request = {
      world: options.world,
      resources: this.resources,
      ownerId: this.#context.nextOwnerId(),
      token: options.world.fencing ? tokens.propose(low) : 0,
      ttl,
    };
    this.#attempts += 1;
    const result = await new Promise<AttemptResult>((resolve) => {
      const attempt = new Attempt(this.#context, tokens, request, resolve);
      this.waiter.onInterrupted = () => {
        attempt.cancel();
      };
      attempt.start(timeout, tieBreaker);
    });
    this.waiter.onInterrupted = () => undefined;
    this.#giveBackIfInterrupted(result);
    return result;
  }

  // The interruption may have come after the quorum, before anybody was told of it.
  #giveBackIfInterrupted(result: AttemptResult): void {
    try {
      this.waiter.throwIfInterrupted();
    } catch (reason) {
      if (result.verdict === 'granted') void result.holding.release();
      throw reason;
    }
  }

  #patience(): Milliseconds {
    return this.#deadline - this.#context.environment.now();
  }

  #randomOf({ min, max }: RetryDelay): Milliseconds {
    return min + this.#context.environment.random() * (max - min);
  }

  #refusal(result: FailedAttempt): RedlockError {
    return refusalError(this.#context, {
      resources: this.resources,
      verdict: result.verdict,
      answers: result.answers,
      attempts: this.#attempts,
      waited: this.waited(),
      clockOffsets: this.#context.tokens.offsets(),
    });
  }
}

// After a vote that was split, so that perhaps nobody has a quorum, the first live node breaks
// the tie: those who find it taken ask no other node.
function tieBreakerOf(failed: FailedAttempt | null): number | null {
  if (failed?.verdict !== 'taken') return null;
  const isSplit = failed.answers.some((answer) => answer?.vote === 'granted');
  const votes = failed.answers.map((answer) => answer?.vote);
  return isSplit ? votes.findIndex((vote) => vote === 'granted' || vote === 'taken') : null;
}
