// One call's way to a lock: its turn in the queue, then attempts, each after a wake-up or a random
// pause, until it is granted, `wait` is spent, or somebody interrupts. PROTOCOL.md sections 4.8
// and 10.
import { ignoreAbort, interruptOnAbort } from './abort-listener.js';
import { Attempt } from './attempt.js';
import { Holding } from './holding.js';
import { nodeTimeoutOf } from './options.js';
import { queuedError, refusalError } from './refusals.js';
import { Waiter } from './waiter.js';
import type { AttemptResult, FailedAttempt } from './attempt.js';
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
  /** An owner id that no other attempt, process or time has. */
  nextOwnerId(): string;
}

/** How long a call sleeps at most while it would hear of a release: wake-ups may get lost. */
const POLL: RetryDelay = { min: 40, max: 60 };

/** Attempts that follow at once when only the token proposal was in the way. */
const STALE_RETRIES_MAX = 3;

/**
 * How often a call tries at least while the vote is split, whatever its `wait`. Else, of several
 * that begin at once, such as a job's on all replicas, each might be told that another has it.
 */
const SPLIT_ATTEMPTS_MIN = 4;

/** One call for a lock. */
export class Acquisition {
  readonly #resources: readonly string[];
  readonly #context: AcquisitionContext;
  readonly #options: ResolvedAcquire;
  readonly #startedAt: Milliseconds;
  readonly #deadline: Milliseconds;
  readonly #fullTimeout: Milliseconds;
  /** The call's place in its process's queues, until the lock has ended. */
  readonly waiter: Waiter;
  #attempts = 0;

  constructor(
    context: AcquisitionContext,
    resources: readonly string[],
    options: ResolvedAcquire,
    hasBody: boolean,
  ) {
    this.#resources = resources;
    this.#context = context;
    this.#options = options;
    this.#startedAt = context.environment.now();
    this.#deadline = this.#startedAt + options.wait;
    this.#fullTimeout = nodeTimeoutOf(context.options, options.ttl);
    this.waiter = new Waiter(context.environment, resources, hasBody ? options.ttl : null);
  }

  /** How many attempts were made so far. */
  get attempts(): number {
    return this.#attempts;
  }

  /** How long the call has lasted so far, in ms. */
  waited(): Milliseconds {
    return this.#context.environment.now() - this.#startedAt;
  }

  /**
   * @param held What the caller holds already.
   * @throws RedlockError, or the reason of whoever interrupted; then nothing stays locked.
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
      const refuse = (error: Error): void => {
        waitingRoom.leave(this.waiter);
        if (signal !== null) ignoreAbort(signal, this.waiter);
        reject(error);
      };
      if (!waitingRoom.isTurn(this.waiter)) {
        this.#queueUp().then(grant, refuse);
        return;
      }
      // What is granted at once, as most locks are, costs no promise but this one.
      this.#try(0, this.#fullTimeout, null, (result) => {
        if (result instanceof Holding) grant(result);
        else this.#persist(result).then(grant, refuse);
      });
    });
  }

  async #untilTurn(): Promise<void> {
    const { waitingRoom } = this.#context;
    while (this.waiter.received === null && !waitingRoom.isTurn(this.waiter)) {
      const patience = this.#patience();
      if (patience === 0) {
        // Passes nobody over: one attempt, so that the error tells what the nodes say.
        if (waitingRoom.isNext(this.waiter)) return;
        throw this.#queuedError();
      }
      await this.waiter.pause(patience);
    }
  }

  async #queueUp(): Promise<Holding> {
    await this.#untilTurn();
    return this.#persist(this.#received() ?? (await this.#attempt(0, this.#fullTimeout, null)));
  }

  // What the call before this one handed over. This process may have been busy since: as with an
  // attempt, half of the ttl must be left.
  #received(): Holding | null {
    const { received } = this.waiter;
    if (received === null || received.remaining() > this.#options.ttl / 2) return received;
    void received.release();
    return null;
  }

  // Goes on from the first attempt. That one had all the time that it needs, for `wait: 0` means
  // one attempt; those after it keep to `wait`, but for those that a split vote asks for.
  async #persist(first: AttemptResult): Promise<Holding> {
    let timeout = this.#fullTimeout;
    let refused: FailedAttempt | null = null;
    let result = await this.#untilFresh(first, timeout, null);
    while (!(result instanceof Holding)) {
      // Silence in an attempt that was cut short, or of one node that was to decide for all, says
      // less than the attempt before it.
      const isPartial = timeout < this.#fullTimeout || result.tieBreaker !== null;
      if (refused === null || !isPartial || result.verdict !== 'noQuorum') refused = result;
      this.#tellThoseBehind(refused);
      // Time heals no misconfiguration: say it now rather than after `wait`.
      const isHopeless = result.verdict === 'misconfigured';
      if (isHopeless || this.#isSpent(result)) throw this.#refusal(refused);
      await this.#rest(result);
      if (this.#isSpent(result)) throw this.#refusal(refused);
      const patience = this.#patience();
      timeout = patience === 0 ? this.#fullTimeout : Math.min(this.#fullTimeout, patience);
      const tieBreaker = tieBreakerOf(result);
      const next = await this.#attempt(0, timeout, tieBreaker);
      result = await this.#untilFresh(next, timeout, tieBreaker);
    }
    return result;
  }

  // They may run out of patience before it is their turn to ask.
  #tellThoseBehind(refused: FailedAttempt): void {
    const isOutage = refused.verdict === 'noQuorum' || refused.verdict === 'misconfigured';
    for (const { line } of this.waiter.places) line.outage = isOutage ? refused : null;
  }

  // Behind a holder of this process it would be handed the lock, and try for it all the same.
  #isSpent(result: FailedAttempt): boolean {
    if (this.#patience() > 0) return false;
    // What the node that decides has may be of somebody who is gone.
    const wasDecided = result.tieBreaker !== null && result.verdict === 'taken';
    const isSplit = wasDecided || tieBreakerOf(result) !== null;
    if (this.#attempts >= SPLIT_ATTEMPTS_MIN || !isSplit) return true;
    return !this.#context.waitingRoom.isTurn(this.waiter);
  }

  async #rest({ verdict }: FailedAttempt): Promise<void> {
    const { waitingRoom } = this.#context;
    const { retryDelay } = this.#options;
    if (this.#patience() === 0) {
      // The bounds are cut, not what was drawn: those who met would pause alike, and meet again.
      const min = Math.min(retryDelay.min, this.#fullTimeout);
      const max = Math.min(retryDelay.max, this.#fullTimeout);
      await this.waiter.pause(this.#randomOf({ min, max }));
      return;
    }
    // Who waits for a resource that others hold is told of its release. As soon as no release
    // goes unheard it is woken, to try once more: one in between was not heard.
    if (verdict !== 'taken' || !waitingRoom.listen(this.waiter)) {
      await waitingRoom.rest(this.waiter, this.#randomOf(retryDelay), this.#patience());
      return;
    }
    const poll = Math.max(this.#randomOf(POLL), retryDelay.min);
    const wasWoken = await waitingRoom.rest(this.waiter, poll, this.#patience());
    const raceDelay = wasWoken ? Math.round(waitingRoom.raceDelay(this.waiter)) : 0;
    if (raceDelay > 0) await this.waiter.pause(Math.min(raceDelay, this.#patience()));
  }

  // Up to three more attempts at once while only the token was in the way.
  async #untilFresh(
    first: AttemptResult,
    timeout: Milliseconds,
    tieBreaker: number | null,
  ): Promise<AttemptResult> {
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
      result = await this.#attempt(low, timeout, tieBreaker);
    }
  }

  #attempt(
    low: Microseconds,
    timeout: Milliseconds,
    tieBreaker: number | null,
  ): Promise<AttemptResult> {
    return new Promise((resolve) => {
      this.#try(low, timeout, tieBreaker, resolve);
    });
  }

  #try(
    low: Microseconds,
    timeout: Milliseconds,
    tieBreaker: number | null,
    onSettled: (result: AttemptResult) => void,
  ): void {
    const { options, tokens, waitingRoom } = this.#context;
    const isFollowed = waitingRoom.startAttempt(this.waiter);
    const request = {
      world: options.world,
      resources: this.#resources,
      ownerId: this.#context.nextOwnerId(),
      token: options.world.fencing ? tokens.propose(low, isFollowed) : 0,
      ttl: this.#options.ttl,
    };
    this.#attempts += 1;
    const attempt = new Attempt(this.#context, tokens, request, onSettled);
    this.waiter.attempt = attempt;
    attempt.start(timeout, tieBreaker);
    // Interrupted since it was woken: the lock may have been handed on to it, and then nobody
    // else was told that it is free. They are told of this.
    if (this.waiter.isInterrupted) attempt.cancel();
  }

  // The interruption may have come after the quorum, before anybody was told of it.
  #giveBackIfInterrupted(result: AttemptResult): void {
    if (this.waiter.isInterrupted && result instanceof Holding) void result.release();
    this.waiter.throwIfInterrupted();
  }

  #patience(): Milliseconds {
    return Math.max(0, this.#deadline - this.#context.environment.now());
  }

  #randomOf({ min, max }: RetryDelay): Milliseconds {
    return min + this.#context.environment.random() * (max - min);
  }

  // Where those before it found too few nodes that can vote, nobody need hold the resource.
  #queuedError(): RedlockError {
    const lines = this.waiter.places.map(({ line }) => line);
    const outage = lines.map((line) => line.outage).find((each) => each !== null);
    if (outage != null) return this.#refusal(outage);
    const queued = lines.filter(({ head }) => head !== this.waiter);
    const names = queued.map(({ resource }) => resource);
    return queuedError(this.#resources, names, this.waited());
  }

  #refusal(result: FailedAttempt): RedlockError {
    return refusalError(this.#context, {
      resources: this.#resources,
      verdict: result.verdict,
      answers: result.answers,
      tieBreaker: result.tieBreaker,
      attempts: this.#attempts,
      waited: this.waited(),
      clockOffsets: this.#context.tokens.offsets(),
    });
  }
}

// After a vote that was split, so that perhaps nobody has a quorum, the first live node breaks
// the tie: those who find it taken ask no other node.
function tieBreakerOf(failed: FailedAttempt): number | null {
  if (failed.verdict !== 'taken') return null;
  const isSplit = failed.answers.some((answer) => answer?.vote === 'granted');
  const votes = failed.answers.map((answer) => answer?.vote);
  return isSplit ? votes.findIndex((vote) => vote === 'granted' || vote === 'taken') : null;
}
