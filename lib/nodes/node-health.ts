import { inMicrotask, type Environment, type TimerHandle } from '../core/environment.js';
import type { FailedAnswer, NodeStatus } from '../core/lock-node.js';
import type { RedlockObserver } from '../core/observer.js';
import { DELAY_MAX } from '../core/options.js';
import type { Microseconds, Milliseconds } from '../core/units.js';
import { unsentOutcome } from './redis-outcomes.js';

/**
 * The state of a node: what `status()` says, and what its observer is told, once per change. If it
 * is suspended and resumes over and over, the observer is told once a minute.
 */
export class NodeHealth {
  /** Resolves when the node is up, or known not to be, for the first time. */
  readonly firstOutcome: Promise<void>;
  #onFirstOutcome: () => void = () => undefined;
  #state: NodeStatus['state'] = 'connecting';
  #message = 'not connected yet';
  #findings: readonly string[] = [];
  /** Further findings: that it refuses locks, or releases; and when it did so last. */
  readonly #refusals = new Map<string, { readonly finding: string; readonly at: Milliseconds }>();
  #clockOffset: Milliseconds | null = null;
  #quarantinedUntil: Milliseconds;
  #quarantineTimer: TimerHandle = null;
  /** Whether a quarantine was reported, and its end was not. */
  #isQuarantineReported = false;
  #suspensionReportedAt: Milliseconds = -Infinity;
  #unreportedSuspensions = 0;

  constructor(
    private readonly name: string,
    private readonly environment: Environment,
    private readonly observer: RedlockObserver,
  ) {
    this.#quarantinedUntil = environment.now();
    this.firstOutcome = new Promise((resolve) => {
      this.#onFirstOutcome = resolve;
    });
  }

  get state(): NodeStatus['state'] {
    return this.#state;
  }

  /** The vote of a node that cannot be asked now. */
  get failure(): FailedAnswer {
    return unsentOutcome(this.#message, this.#state === 'refused');
  }

  status(): NodeStatus {
    const remaining = this.#quarantinedUntil - this.environment.now();
    const refusals = [...this.#refusals.values()].map(({ finding }) => finding);
    return {
      name: this.name,
      state: this.#state,
      quarantineRemaining: Math.max(0, Math.ceil(remaining)),
      clockOffset: this.#clockOffset,
      findings: [...this.#findings, ...refusals],
    };
  }

  /** Connected, and fit. The observer is told, with the findings that are new. */
  noteUp(findings: readonly string[]): void {
    const news = findings.filter((finding) => !this.#findings.includes(finding));
    this.#change('up', ['Connected.', ...news].join(' '), findings, news.length > 0);
  }

  /**
   * It refused to lock, or to release: a finding, with the latest reason, until it does so again. A
   * refusal that comes and goes in that time is reported once.
   */
  noteRefusal(what: 'locks' | 'releases', reason: string): void {
    if (this.#state !== 'up') return;
    const finding = `It refuses ${what}: ${reason.replace(/\.?$/, '.')}`;
    const isKnown = this.#refusals.has(what);
    this.#refusals.set(what, { finding, at: this.environment.now() });
    if (!isKnown) this.#report(finding, true);
  }

  /** It locked, or would; or it did what a release asked for. */
  noteGrant(what: 'locks' | 'releases'): void {
    const refusal = this.#refusals.get(what);
    if (refusal === undefined || this.environment.now() - refusal.at < REFUSAL_KEPT) return;
    this.#refusals.delete(what);
    // Not reported for releases: one that is done may have found nothing to do.
    if (what === 'locks') this.#report('It grants locks again.', false);
  }

  /** Connected but silent. How long it has been so, and how much it owes, goes into the message. */
  noteSuspension(silence: Milliseconds, backlog: number): void {
    if (this.#state !== 'up') return;
    const unreported = this.#unreportedSuspensions;
    const now = this.environment.now();
    const isReported = now - this.#suspensionReportedAt >= REPORT_INTERVAL;
    this.#unreportedSuspensions = isReported ? 0 : unreported + 1;
    if (isReported) this.#suspensionReportedAt = now;
    const message = `Suspended: silent for ${silence} ms, commands unanswered: ${backlog}.`;
    const times =
      unreported > 0 ? ` Suspended ${unreported} more times since this was last logged.` : '';
    this.#change('suspended', message, this.#findings, true, times);
  }

  /** It answers again, as it was before. */
  noteResumption(): void {
    this.noteUp(this.#findings);
    this.#reportQuarantineEnd();
  }

  /** Not connected, or not fit. Until it is refused, its findings stay known while it is away. */
  noteFailure(reason: FailedAnswer): void {
    const { message } = reason;
    this.#refusals.clear();
    if (reason.isMisconfiguration) this.#change('refused', message, [message]);
    else this.#change('down', message, this.#state === 'refused' ? [] : this.#findings);
  }

  /** The time on the node's clock, as it came with an answer. */
  noteTime(nodeTime: Microseconds): void {
    this.#clockOffset = nodeTime / 1_000 - this.environment.wallClock();
  }

  /** The node's votes do not count for this long, which may be 0. */
  noteQuarantine(stated: Milliseconds): void {
    // A server may say anything.
    const remaining = Math.min(stated, DELAY_MAX);
    // A closed node may still hear its last answers.
    if (this.#state === 'down') return;
    this.#quarantinedUntil = this.environment.now() + remaining;
    if (remaining <= 0) {
      this.#reportQuarantineEnd();
      return;
    }
    if (this.#quarantineTimer !== null) return;
    this.#isQuarantineReported = true;
    this.#report(
      `Its votes do not count for ${remaining} ms: it may have forgotten locks that are held.`,
      true,
    );
    this.#awaitQuarantineEnd(remaining);
  }

  /** Stops the timer. The end was asked for, so nobody is told. */
  close(): void {
    this.environment.stopTimer(this.#quarantineTimer);
    this.#state = 'down';
    this.#message = 'closed';
    this.#onFirstOutcome();
  }

  // The end is computed, so that nobody needs to ask the node. It may have moved meanwhile.
  #awaitQuarantineEnd(remaining: Milliseconds): void {
    const onEnd = (): void => {
      this.#quarantineTimer = null;
      const left = this.#quarantinedUntil - this.environment.now();
      if (left > 0) this.#awaitQuarantineEnd(left);
      else this.#reportQuarantineEnd();
    };
    this.#quarantineTimer = this.environment.startTimer(remaining, onEnd, false);
  }

  // Not while it is away or silent: whether its votes count will show when it is back.
  #reportQuarantineEnd(): void {
    const isOver = this.#quarantinedUntil <= this.environment.now();
    if (!this.#isQuarantineReported || !isOver || this.#state !== 'up') return;
    this.#isQuarantineReported = false;
    this.#report('Its votes count.', false);
  }

  #change(
    state: NodeStatus['state'],
    message: string,
    findings: readonly string[],
    isTrouble = true,
    remark = '',
  ): void {
    // Another reason for being down is no news: each attempt to connect may fail in its own way.
    const isNews = state !== this.#state || findings.join() !== this.#findings.join();
    const isResumed = state === 'up' && this.#state === 'suspended';
    const isFlapping = this.#unreportedSuspensions > 0 && (state === 'suspended' || isResumed);
    this.#state = state;
    this.#message = message;
    this.#findings = findings;
    this.#onFirstOutcome();
    if (isNews && !isFlapping) this.#report(message + remark, isTrouble);
  }

  // Not at once: whoever is told may ask for anything, and may throw. Neither must come between
  // the answers of a call, or keep a lost node from being reconnected.
  #report(message: string, isTrouble: boolean): void {
    const status = this.status();
    inMicrotask(() => this.observer.nodeChanged(status, message, isTrouble));
  }
}

/**
 * How soon an observer is told of another suspension. A node so far away that its votes come too
 * late is suspended with each call. One that stays silent is disconnected long before, and told of.
 */
const REPORT_INTERVAL: Milliseconds = 60_000;

/** A node that does again what it is asked is believed only this long after its last refusal. */
const REFUSAL_KEPT: Milliseconds = 10_000;
