// One call's way to a lock: its turn in the queue, then attempts, each after a wake-up or a random
// pause, until it is granted, `wait` is spent, or it is interrupted. PROTOCOL.md sections 4.8
// and 10.
import { ignoreAbort, interruptOnAbort } from './abort-listener.js';
import { Attempt, decidedBy, isPatient, isSplit, tieBreakerAfter } from './attempt.js';
import { SLOT } from './coalesced-timers.js';
import { TIMER_ERROR } from './environment.js';
import { Holding } from './holding.js';
import { DELAY_MAX, nodeTimeoutOf } from './options.js';
import { queuedError, refusalError } from './refusals.js';
import { LockRequest } from './requests.js';
import { Waiter } from './waiter.js';
import type { AttemptResult, FailedAttempt, OnSettled } from './attempt.js';
import type { Ensemble } from './ensemble.js';
import type { RedlockError } from './errors.js';
import type { TokenSource } from './fencing.js';
import type { ResolvedAcquire, RetryDelay } from './options.js';
import type { Microseconds, Milliseconds } from './units.js';
import type { WaitingRoom } from './waiting.js';

/** What the acquisitions of one `Redlock` share. */
export interface AcquisitionContext extends Ensemble {
  readonly tokens: TokenSource;
  readonly waitingRoom: WaitingRoom;
  /** An owner id that no other attempt has, in any process and at any time. */
  nextOwnerId(): string;
}

/**
 * How long a call sleeps between attempts while it hears of releases, as a wake-up may get lost:
 * for 40 to 60 ms, because it may sleep up to a slot longer than this says.
 */
const POLL: RetryDelay = { min: 40, max: 60 - SLOT };

/** Attempts that follow at once when only the token proposal was in the way. */
const STALE_RETRIES_MAX = 3;

/**
 * The least number of attempts while the vote is split, whatever `wait` is. With fewer, each of
 * several calls that begin at once, as of a job on all replicas, might hear that another has it.
 */
const SPLIT_ATTEMPTS_MIN = 4;

/** One call for a lock. */
export class Acquisition {
  readonly #context: AcquisitionContext;
  readonly #options: ResolvedAcquire;
  readonly #startedAt: Milliseconds;
  readonly #fullTimeout: Milliseconds;
  /** The call's place in its process's queues, until the lock has ended. */
  readonly waiter: Waiter;
  /** How many attempts were made so far. */
  attempts = 0;
  /** How long the nodes have in the present attempt. */
  #timeout: Milliseconds;
  /** The node that breaks ties in the present attempt; null where all are asked at once. */
  #tieBreaker: number | null = null;
  /** The last tie-breaker that was found taken; -1 where none was. */
  #decider = -1;

  constructor(
    context: AcquisitionContext,
    resources: readonly string[],
    options: ResolvedAcquire,
    hasBody: boolean,
  ) {
    this.#context = context;
    this.#options = options;
    this.#startedAt = context.environment.now();
    this.#timeout = this.#fullTimeout = nodeTimeoutOf(context.options, options.ttl);
    this.waiter = new Waiter(context.environment, resources, options.ttl, hasBody);
  }

  /** How long the call has lasted so far, in ms. */
  waited(): Milliseconds {
    return this.#context.environment.now() - this.#startedAt;
  }

  /**
   * {@link giveUp} has to follow if it rejects.
   * @param held What the caller already holds.
   * @throws RedlockError, or the reason of the interruption; either way nothing stays locked.
   */
  run(held: readonly string[]): Promise<Holding> {
    const { signal } = this.#options;
    const { waitingRoom } = this.#context;
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (signal !== null) interruptOnAbort(signal, this.waiter);
      waitingRoom.enter(this.waiter, held);
      const grant = (holding: Holding): void => {
        waitingRoom.hold(this.waiter);
        if (signal !== null) ignoreAbort(signal, this.waiter);
        resolve(holding);
      };
      if (!waitingRoom.mayTry(this.waiter)) {
        this.#queueUp().then(grant, reject);
        return;
      }
      // A lock that is granted at once, as most are, costs no promise but this one.
      const attempt = (onSettled: OnSettled): void => this.#startAttempt(0, onSettled);
      waitingRoom.firstAttempts.start(this.waiter, attempt, (result) => {
        if (result instanceof Holding) grant(result);
        else this.#retryUntilGranted(result).then(grant, reject);
      });
    });
  }

  /**
   * The call has failed: others go on. Perhaps it failed half way, as where the stack of its caller
   * was used up, and its attempt is under way.
   */
  giveUp(reason: unknown): void {
    const { signal } = this.#options;
    this.waiter.interrupt(reason);
    this.#context.waitingRoom.leave(this.waiter);
    if (signal !== null) ignoreAbort(signal, this.waiter);
  }

  async #queueUp(): Promise<Holding> {
    await this.#untilItMayTry();
    // At once, however many are under way: the lock may have been left to it in place of others.
    return this.#retryUntilGranted(this.#takeReceived() ?? (await this.#attempt(0)));
  }

  async #untilItMayTry(): Promise<void> {
    const { waitingRoom } = this.#context;
    while (this.waiter.received === null && !waitingRoom.mayTry(this.waiter)) {
      const patience = this.#patience();
      if (patience === 0) {
        // Nobody is waiting ahead of it: one attempt, so that the error tells what the nodes say.
        if (await waitingRoom.isNext(this.waiter, this.#fullTimeout)) return;
        throw this.#queuedError();
      }
      await this.waiter.pause(patience);
    }
  }

  // The lock that the call before this one handed over, if half of its ttl is left, as is required
  // of an attempt: this process may have been busy since.
  #takeReceived(): Holding | null {
    const { received } = this.waiter;
    this.waiter.received = null;
    if (received === null || received.remaining() > this.#options.ttl / 2) return received;
    void received.release();
    return null;
  }

  // Goes on from the first attempt, which had its full time, because `wait: 0` means one attempt.
  // Later ones keep to `wait`, except those that a split vote calls for.
  async #retryUntilGranted(first: AttemptResult): Promise<Holding> {
    let reported: FailedAttempt | null = null;
    let result = await this.#retryWhileStale(first);
    while (!(result instanceof Holding)) {
      // Silence in an attempt that was cut short, or from the one node that was to decide for all,
      // or from those that were asked after it, says less than the attempt before it.
      const isPartial = this.#timeout < this.#fullTimeout || this.#tieBreaker !== null;
      if (reported === null || !isPartial || result.verdict !== 'noQuorum') reported = result;
      this.#noteFailure(result, reported);
      // Time heals no misconfiguration: say it now rather than after `wait`.
      const isFinal = result.verdict === 'misconfigured' || this.#isSpent(result);
      if (isFinal) throw this.#refusal(reported);
      this.#context.waitingRoom.giveWay(this.waiter);
      await this.#rest(result);
      if (this.#isSpent(result)) throw this.#refusal(reported);
      // Calls that it let pass are before it, and may hold what it wants.
      await this.#untilItMayTry();
      this.#prepareAfter(result);
      result = await this.#retryWhileStale(await this.#attempt(0));
    }
    return result;
  }

  // `reported`: the attempt that the error is about if the call ends now.
  #noteFailure(result: FailedAttempt, reported: FailedAttempt): void {
    const isOutage = reported.verdict === 'noQuorum' || reported.verdict === 'misconfigured';
    for (const { line } of this.waiter.places) {
      // Calls behind this one may run out of patience before they may ask.
      line.outage = isOutage ? reported : null;
      if (isSplit(result)) line.turns.forget();
    }
  }

  // Within `wait` the first live node breaks the tie each time: all who contend choose the same.
  #prepareAfter(result: FailedAttempt): void {
    const patience = this.#patience();
    this.#timeout = patience === 0 ? this.#fullTimeout : Math.min(this.#fullTimeout, patience);
    this.#decider = decidedBy(result) ?? this.#decider;
    this.#tieBreaker = tieBreakerAfter(result, patience === 0 ? this.#decider : -1);
  }

  #isSpent(result: FailedAttempt): boolean {
    if (this.#patience() > 0) return false;
    // The key on the deciding node may be that of somebody who is gone.
    const isUndecided = decidedBy(result) !== null || isSplit(result);
    if (this.attempts >= SPLIT_ATTEMPTS_MIN || !isUndecided) return true;
    // None behind a holder of this process: the lock may be handed to this call while it rests, and
    // it would not look for that, but ask the nodes.
    return !this.#context.waitingRoom.mayTry(this.waiter);
  }

  async #rest({ verdict }: FailedAttempt): Promise<void> {
    const { waitingRoom } = this.#context;
    const { retryDelay } = this.#options;
    if (this.#patience() === 0) {
      // The bounds are cut, not the value: all who drew more would pause alike, and meet again.
      const min = Math.min(retryDelay.min, this.#fullTimeout);
      const max = Math.min(retryDelay.max, this.#fullTimeout);
      await this.waiter.pause(this.#randomOf({ min, max }));
      return;
    }
    // A call that waits for what others hold listens for its release. Once no release can go
    // unheard it is woken to try again, because one before that may have been missed.
    if (verdict !== 'taken' || !waitingRoom.listen(this.waiter)) {
      await waitingRoom.resting.rest(this.waiter, this.#randomOf(retryDelay), this.#patience());
      return;
    }
    const drawPoll = (): Milliseconds => Math.max(this.#randomOf(POLL), retryDelay.min);
    await waitingRoom.restUntilTurn(this.waiter, drawPoll, () => this.#patience());
  }

  // Up to three more attempts at once while only the token was in the way.
  async #retryWhileStale(first: AttemptResult): Promise<AttemptResult> {
    const { tokens } = this.#context;
    let low: Microseconds = 0;
    let result = first;
    for (let retries = 0; ; retries += 1) {
      this.#giveBackIfInterrupted(result);
      if (result instanceof Holding) return result;
      if (result.verdict !== 'stale' || retries === STALE_RETRIES_MAX) return result;
      const stale = result.answers.filter((answer) => answer?.vote === 'stale');
      low = Math.max(low, ...tokens.boundsOf(stale));
      if (stale.some((answer) => answer.isAhead)) tokens.forget();
      result = await this.#attempt(low);
    }
  }

  // `low`: the highest bound with which a node has refused a token of this call; 0 at first.
  #attempt(low: Microseconds): Promise<AttemptResult> {
    return new Promise((resolve) => this.#startAttempt(low, resolve));
  }

  #startAttempt(low: Microseconds, onSettled: OnSettled): void {
    const { options, tokens, waitingRoom } = this.#context;
    const isFollowed = waitingRoom.noteAttempt(this.waiter);
    const request = new LockRequest(
      options.world,
      this.waiter.resources,
      this.#context.nextOwnerId(),
      options.world.fencing ? tokens.propose(low, isFollowed) : 0,
      this.#options.ttl,
    );
    this.attempts += 1;
    const attempt = new Attempt(this.#context, tokens, request, onSettled);
    this.waiter.attempt = attempt;
    attempt.isPatient = isPatient(this.attempts) || this.#patience() === 0;
    attempt.isSuccessor = this.waiter.isSuccessor;
    attempt.start(this.#timeout, this.#tieBreaker);
    // Interrupted after it was woken: the lock may have been left to it, so that nobody else was
    // told that it is free. The cancelled attempt tells them.
    if (this.waiter.isInterrupted) attempt.cancel();
  }

  // The interruption may have come after the quorum was reached, but before the call heard of it.
  #giveBackIfInterrupted(result: AttemptResult): void {
    if (this.waiter.isInterrupted && result instanceof Holding) void result.release();
    this.waiter.throwIfInterrupted();
  }

  // Longer by what a timer may be early: after a pause that ends before `wait` is spent, an attempt
  // would follow that is given up before it is answered, and in the way of others meanwhile.
  #patience(): Milliseconds {
    const left = this.#options.wait - this.waited();
    return left > 0 ? Math.min(left + TIMER_ERROR, DELAY_MAX) : 0;
  }

  #randomOf({ min, max }: RetryDelay): Milliseconds {
    return min + this.#context.environment.random() * (max - min);
  }

  // If the calls before it found too few nodes that can vote, perhaps nobody holds the resource.
  #queuedError(): RedlockError {
    const lines = this.waiter.places.map(({ line }) => line);
    const outage = lines.map((line) => line.outage).find((each) => each !== null);
    if (outage != null) return this.#refusal(outage);
    const queued = lines.filter(({ head }) => head !== this.waiter).map(({ resource }) => resource);
    return queuedError(this.waiter.resources, queued, this.waited());
  }

  #refusal(result: FailedAttempt): RedlockError {
    return refusalError(this.#context, {
      ...result,
      resources: this.waiter.resources,
      attempts: this.attempts,
      waited: this.waited(),
      clockOffsets: this.#context.tokens.offsets(),
    });
  }
}
