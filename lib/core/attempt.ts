// One attempt: a round that asks every node once, and its undo. Rules: PROTOCOL.md section 4.
import { Holding } from './holding.js';
import { hasSlept, RoundTerms } from './node-leases.js';
import { isUntouched, mayHoldKeys } from './node-votes.js';
import { judge } from './quorum.js';
import { undoAt } from './release-round.js';
import { LockRelease } from './requests.js';
import type { Ensemble } from './ensemble.js';
import type { TokenSource } from './fencing.js';
import type { AcquireAnswer, OwnerRequest, ReleaseRequest } from './lock-node.js';
import type { Ballot, Verdict } from './quorum.js';
import type { RoundTimer } from './round-timers.js';
import type { Milliseconds } from './units.js';

/** Why an attempt failed; `expired`: a quorum came too late, `cancelled`: the caller gave up. */
export type FailedVerdict = Exclude<Verdict, 'open' | 'granted'> | 'expired' | 'cancelled';

/** An attempt that gave no lock, and what the nodes said to it. */
export interface FailedAttempt {
  readonly verdict: FailedVerdict;
  readonly answers: readonly (AcquireAnswer | null)[];
  /** The only node that was asked, as it decided for all; null when all were. */
  readonly tieBreaker: number | null;
}

/** What an attempt came to. */
export type AttemptResult = Holding | FailedAttempt;

/** How much longer than a quorum of nodes the others may take at least: servers pause at times. */
const LAG_MIN: Milliseconds = 2;

/** Is told once what an attempt came to. */
export type OnSettled = (result: AttemptResult) => void;

/**
 * Whether the `nth` attempt of a call waits for nodes that are slower than a quorum: one in eight
 * does, because where a faster one keeps the key of somebody who is gone, there is no quorum
 * without them.
 */
export function isPatient(nth: number): boolean {
  return nth % 8 === 1;
}

/** The tie-breaker of an attempt that asked no other node, because that one was taken; or null. */
export function decidedBy({ tieBreaker, verdict }: FailedAttempt): number | null {
  return verdict === 'taken' ? tieBreaker : null;
}

/** Whether some nodes granted it and others were taken, so that perhaps nobody got a quorum. */
export function isSplit({ answers, verdict }: FailedAttempt): boolean {
  return verdict === 'taken' && answers.some((answer) => answer?.vote === 'granted');
}

/**
 * The node that the next attempt asks first, as its tie-breaker; null unless the vote was split. It
 * is the first live node after `decider`, which this call has found taken as a tie-breaker: its key
 * may have been left by somebody who is gone.
 * Source: PROTOCOL.md sections 4.8 and 10.
 */
export function tieBreakerAfter(attempt: FailedAttempt, decider: number): number | null {
  if (!isSplit(attempt)) return null;
  const { answers } = attempt;
  const isLive = answers.map((answer) => answer?.vote === 'granted' || answer?.vote === 'taken');
  const next = isLive.indexOf(true, decider + 1);
  return next < 0 ? isLive.indexOf(true) : next;
}

/** The state of one attempt. It settles exactly once, whatever the nodes say or do not say. */
export class Attempt {
  /** Whether nodes that are slower than a quorum are waited for, as in the last one of a call. */
  isPatient = true;
  /** Whether this process releases what it wants now, of which perhaps nobody else is told. */
  isSuccessor = false;
  readonly #ensemble: Ensemble;
  readonly #tokens: TokenSource;
  readonly #request: OwnerRequest;
  #onSettled: OnSettled | null;
  readonly #answers: (AcquireAnswer | null)[];
  readonly #ballot = new BallotBox();
  readonly #terms: RoundTerms;
  #timer: RoundTimer | null = null;
  /** Ends the wait for slower nodes; null while it has not begun. */
  #lagTimer: RoundTimer | null = null;
  /** The only node that was asked so far; null when all were. */
  #tieBreaker: number | null = null;
  #holding: Holding | null = null;
  /** Why the attempt failed; null until then. */
  #failure: FailedVerdict | null = null;
  /** What a node was asked last to undo. */
  #undo: ReleaseRequest | null = null;

  constructor(
    ensemble: Ensemble,
    tokens: TokenSource,
    request: OwnerRequest,
    onSettled: OnSettled,
  ) {
    this.#ensemble = ensemble;
    this.#tokens = tokens;
    this.#request = request;
    this.#onSettled = onSettled;
    this.#answers = ensemble.nodes.map(() => null);
    // Made before the first byte is sent: on a node the ttl begins later than this.
    this.#terms = new RoundTerms(ensemble.environment, request.ttl, ensemble.options.driftFactor);
  }

  /**
   * Asks all nodes at once. With a `tieBreaker`, asks that node alone, and the others only if it
   * is not taken. `timeout`: how long the nodes have, in ms.
   */
  start(timeout: Milliseconds, tieBreaker: number | null = null): void {
    this.#timer = this.#ensemble.roundTimers.start(timeout, () => this.#onTimeout());
    this.#tieBreaker = tieBreaker;
    for (let index = 0; index < this.#answers.length; index += 1) {
      if (tieBreaker === null || index === tieBreaker) this.#ask(index);
    }
  }

  /** Gives the attempt up and undoes it; an attempt that has settled is left alone. */
  cancel(): void {
    if (this.#failure === null && this.#holding === null) this.#fail('cancelled');
  }

  #ask(index: number): void {
    const onAnswer = (answer: AcquireAnswer): void => this.#onAnswer(index, answer);
    this.#ensemble.nodes[index]?.acquire(this.#request, onAnswer);
  }

  #askOthers(tieBreaker: number): void {
    this.#tieBreaker = null;
    for (let index = 0; index < this.#answers.length; index += 1) {
      if (index !== tieBreaker) this.#ask(index);
    }
    this.#decide();
  }

  #onAnswer(index: number, answer: AcquireAnswer): void {
    // A node has one vote, however often its answer arrives.
    if (this.#answers[index] !== null) return;
    this.#answers[index] = answer;
    if ('nodeTime' in answer) this.#tokens.learn(index, answer.nodeTime);
    if (this.#holding !== null) {
      this.#holding.onLateAnswer(index, answer);
    } else if (this.#failure !== null) {
      if (mayHoldKeys(answer)) this.#undoAt(index);
    } else {
      this.#ballot.count(answer, this.#answers);
      if (this.#tieBreaker === null) this.#decide();
      else if (answer.vote === 'taken') this.#fail('taken');
      else this.#askOthers(this.#tieBreaker);
    }
  }

  #onTimeout(): void {
    const isSilent = (answer: AcquireAnswer | null): boolean => answer === null;
    this.#ballot.failed += this.#answers.filter(isSilent).length;
    this.#decide();
  }

  #decide(isLagOver = false): void {
    const judged = judge(this.#ballot, this.#ensemble.nodes.length);
    const known = judged === 'stale' ? this.#judgeStale() : judged;
    const verdict = known === 'open' && isLagOver ? 'taken' : known;
    if (verdict === 'open') {
      this.#limitLag();
      return;
    }
    const isGranted = verdict === 'granted';
    const { environment, observer } = this.#ensemble;
    const now = environment.now();
    const duration = now - this.#terms.startedAt;
    if (isGranted || verdict === 'stale') this.#tokens.roundTook(duration);
    if (!isGranted) this.#fail(verdict);
    else if (this.#isInTime(now)) this.#win();
    else this.#fail('expired');
    // Last: the observer may give the call up, and must find an attempt that has settled.
    observer.roundDecided('acquire', this.#request.resources, duration, isGranted);
  }

  // A quorum has voted, but not for one. What is granted meanwhile keeps others away, who may be
  // told that the lock is free: the other nodes have as long again, and no more.
  #limitLag(): void {
    const { environment, quorum, roundTimers } = this.#ensemble;
    const hasVoted = this.#ballot.granted + this.#ballot.taken >= quorum;
    if (this.isPatient || !hasVoted || this.#lagTimer !== null) return;
    const lag = Math.max(LAG_MIN, Math.ceil(environment.now() - this.#terms.startedAt));
    this.#lagTimer = roundTimers.start(lag, () => this.#decide(true));
  }

  // A node whose clock is far off refuses the tokens that suit a quorum of the others. Its `stale`
  // hides what these say: trying again at once would only get in other contenders' way.
  #judgeStale(): Verdict {
    const { granted, taken, takenByOne, stale, quarantined, failed, misconfigured } = this.#ballot;
    const isHopeless = (answer: AcquireAnswer | null): boolean =>
      answer?.vote === 'stale' && this.#tokens.isHopeless(answer);
    const hopeless = this.#answers.filter(isHopeless).length;
    const ballot = { granted, taken, takenByOne, quarantined, misconfigured };
    const counted = { ...ballot, stale: stale - hopeless, failed: failed + hopeless };
    const truth = judge(counted, this.#answers.length);
    return truth === 'taken' || truth === 'open' ? truth : 'stale';
  }

  // All leases of a first round begin together, so any of them is the lock's validity. Half of
  // the ttl must be left: a body that starts with less would lose the lock soon after.
  #isInTime(now: Milliseconds): boolean {
    const { clockGapMax, ttl, until } = this.#terms;
    return now < until - ttl / 2 && !hasSlept(this.#ensemble.environment, now, clockGapMax);
  }

  #win(): void {
    this.#holding = new Holding(this.#ensemble, this.#request, this.#terms, this.#answers);
    this.#settle(this.#holding);
  }

  #fail(verdict: FailedVerdict): void {
    this.#failure = verdict;
    const answers = [...this.#answers];
    // Silent nodes too: their answer may have been lost, not their write.
    for (let index = 0; index < answers.length; index += 1) {
      const wasAsked = this.#tieBreaker === null || index === this.#tieBreaker;
      if (wasAsked && !isUntouched(answers[index])) this.#undoAt(index);
    }
    this.#settle({ verdict, answers, tieBreaker: this.#tieBreaker });
  }

  // A slow node's pending answer keeps the attempt in memory; it must not keep the caller there.
  #settle(result: AttemptResult): void {
    const onSettled = this.#onSettled;
    this.#timer?.stop();
    this.#lagTimer?.stop();
    this.#timer = this.#lagTimer = this.#onSettled = null;
    onSettled?.(result);
  }

  #undoAt(index: number): void {
    // Listeners are told of a turn that is given up or comes to nothing, and of a vote that kept
    // others away. They are not told of what did not count as a vote: a waiting call would wake
    // itself, in vain.
    const keptOthersAway =
      this.#answers[index]?.vote === 'granted' &&
      (this.#failure === 'taken' || this.#failure === 'expired');
    const wakes = this.#failure === 'cancelled' || this.isSuccessor || keptOthersAway;
    undoAt(this.#ensemble, index, this.#undoRequest(wakes));
  }

  // The same for all nodes, where it can be: what is asked of them alike is encoded once.
  #undoRequest(wakes: boolean): ReleaseRequest {
    let request = this.#undo;
    if (request?.wakes !== wakes) {
      request = this.#undo = new LockRelease(this.#request, this.#request.ttl, wakes);
    }
    return request;
  }
}

class BallotBox implements Ballot {
  granted = 0;
  taken = 0;
  takenByOne = 0;
  stale = 0;
  quarantined = 0;
  failed = 0;
  misconfigured = 0;

  /** `answers`: those of the round so far, with this one. */
  count(answer: AcquireAnswer, answers: readonly (AcquireAnswer | null)[]): void {
    this[answer.vote] += 1;
    if (answer.vote === 'failed' && answer.isMisconfiguration) this.misconfigured += 1;
    if (answer.vote !== 'taken') return;
    const isSame = (other: AcquireAnswer | null): boolean =>
      other?.vote === 'taken' && other.ownerId === answer.ownerId;
    this.takenByOne = Math.max(this.takenByOne, answers.filter(isSame).length);
  }
}
