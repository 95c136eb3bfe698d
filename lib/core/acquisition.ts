// One call's way to a lock: its turn in the queue, then attempts with random pauses, until it is
// granted, `wait` is spent, or somebody interrupts. PROTOCOL.md sections 4.8 and 10.
import { Attempt } from './attempt.js';
import { nodeTimeoutOf } from './options.js';
import { queuedError, refusalError } from './refusals.js';
import { Waiter } from './waiting.js';
import type { AttemptResult } from './attempt.js';
import type { Ensemble } from './ensemble.js';
import type { RedlockError } from './errors.js';
import type { TokenSource } from './fencing.js';
import type { Holding } from './holding.js';
import type { ResolvedAcquire } from './options.js';
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

/** Attempts that follow at once when only the token proposal was in the way. */
const STALE_RETRIES_MAX = 3;

/** One call for a lock. */
export class Acquisition {
  readonly resources: readonly string[];
  readonly #context: AcquisitionContext;
  readonly #options: ResolvedAcquire;
  readonly #startedAt: Milliseconds;
  readonly #deadline: Milliseconds;
  readonly #waiter: Waiter;
  #attempts = 0;

  constructor(context: AcquisitionContext, resources: readonly string[], options: ResolvedAcquire) {
    this.resources = resources;
    this.#context = context;
    this.#options = options;
    this.#startedAt = context.environment.now();
    this.#deadline = this.#startedAt + options.wait;
    this.#waiter = new Waiter(context.environment, resources);
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
      this.#waiter.interrupt(signal?.reason);
    };
    signal?.addEventListener('abort', onAbort);
    waitingRoom.enter(this.#waiter);
    try {
      await this.#untilFirst();
      return await this.#untilGranted();
    } finally {
      waitingRoom.leave(this.#waiter);
      signal?.removeEventListener('abort', onAbort);
    }
  }

  async #untilFirst(): Promise<void> {
    while (!this.#context.waitingRoom.isFirst(this.#waiter)) {
      const patience = this.#patience();
      if (patience <= 0) throw queuedError(this.resources, this.waited());
      await this.#waiter.pause(patience);
    }
  }

  async #untilGranted(): Promise<Holding> {
    // The first attempt has all the time that it needs, for `wait: 0` means one attempt; those
    // after it keep to `wait`.
    const fullTimeout = nodeTimeoutOf(this.#context.options, this.#options.ttl);
    let timeout = fullTimeout;
    let refused: FailedAttempt | null = null;
    for (;;) {
      const result = await this.#tryOnce(timeout);
      if (result.verdict === 'granted') return result.holding;
      // Silence in an attempt that was cut short says less than the attempt before it.
      const isCutShort = timeout < fullTimeout && result.verdict === 'noQuorum';
      if (refused === null || !isCutShort) refused = result;
      // Time heals no misconfiguration: say it now rather than after `wait`.
      const isHopeless = result.verdict === 'misconfigured';
      if (isHopeless || this.#patience() <= 0) throw this.#refusal(refused);
      await this.#waiter.pause(Math.min(this.#retryDelay(), this.#patience()));
      if (this.#patience() <= 0) throw this.#refusal(refused);
      timeout = Math.min(fullTimeout, Math.max(1, this.#patience()));
    }
  }

  // An attempt, and up to three more at once while only the token was in the way.
  async #tryOnce(timeout: Milliseconds): Promise<AttemptResult> {
    let low: Microseconds = 0;
    for (let retries = 0; ; retries += 1) {
      const result = await this.#attempt(low, timeout);
      if (result.verdict !== 'stale' || retries === STALE_RETRIES_MAX) return result;
      const stale = result.answers.filter((answer) => answer?.vote === 'stale');
      low = Math.max(low, ...stale.map((answer) => answer.low));
      if (stale.some((answer) => answer.isAhead)) this.#context.tokens.forget();
    }
  }

  async #attempt(low: Microseconds, timeout: Milliseconds): Promise<AttemptResult> {
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
      this.#waiter.onInterrupted = () => {
        attempt.cancel();
      };
      attempt.start(timeout);
    });
    this.#waiter.onInterrupted = () => undefined;
    this.#giveBackIfInterrupted(result);
    return result;
  }

  // The interruption may have come after the quorum, before anybody was told of it.
  #giveBackIfInterrupted(result: AttemptResult): void {
    try {
      this.#waiter.throwIfInterrupted();
    } catch (reason) {
      if (result.verdict === 'granted') void result.holding.release();
      throw reason;
    }
  }

  #patience(): Milliseconds {
    return this.#deadline - this.#context.environment.now();
  }

  #retryDelay(): Milliseconds {
    const { min, max } = this.#options.retryDelay;
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
