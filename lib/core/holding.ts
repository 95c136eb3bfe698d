// One lock's life on the nodes: leases, extension, loss, release. Rules: PROTOCOL.md sections 3,
// 5 to 7 and 10. What is claimed is computed from the clock when asked; timers only notify.
import { Extender } from './extender.js';
import { lowestTokenOf } from './fencing.js';
import { hasSlept, NodeLeases } from './node-leases.js';
import { NOBODY } from './lock-node.js';
import { mayHoldKeys } from './node-votes.js';
import { askForRelease, undoAt } from './release-round.js';
import { LockRelease } from './requests.js';
import type { Care } from './care.js';
import type { LossReason, NodeVote } from './errors.js';
import type { Ensemble } from './ensemble.js';
import type { TimerHandle } from './environment.js';
import type { Extendable } from './extender.js';
import type { AcquireAnswer, ExtendAnswer, OwnerRequest, ReleaseRequest } from './lock-node.js';
import type { RoundTerms } from './node-leases.js';
import type { OnReleased } from './release-round.js';
import type { Microseconds, Milliseconds } from './units.js';

/**
 * The least share of its ttl that a lock must have left to be handed over: whoever gets it has
 * what the nodes would have given, within a tenth.
 */
const HANDED_OVER_MIN = 0.9;

/** A lock as the nodes know it, from the quorum to the release. */
export class Holding implements Extendable {
  /** @internal */
  watchdogSlot: number | null = null;
  /** When its attempt began, or it was handed over, on the monotonic clock. */
  readonly acquiredAt: Milliseconds;
  /** Its holder's token; the nodes have that of the request, which may stand for a block. */
  readonly fencingToken: Microseconds;
  readonly #ensemble: Ensemble;
  readonly #terms: RoundTerms;
  readonly #leases: NodeLeases;
  /** What the nodes said to the acquisition; late answers are added as they come. */
  readonly #answers: readonly (AcquireAnswer | null)[];
  /** Made when the lock is extended for the first time: many never are. */
  #extender: Extender | null = null;
  #request: OwnerRequest;
  /** The longest lifetime that the nodes were ever asked to give the keys. */
  #ttlLongest: Milliseconds;
  /** How the claim ended; null while it lasts. */
  #end: LossReason | null = null;
  #care: Care | null = null;
  #expiryTimer: TimerHandle = null;
  #releasing: Promise<void> | null = null;

  constructor(
    ensemble: Ensemble,
    request: OwnerRequest,
    terms: RoundTerms,
    answers: readonly (AcquireAnswer | null)[],
    acquiredAt = terms.startedAt,
    fencingToken = lowestTokenOf(request.token),
  ) {
    this.acquiredAt = acquiredAt;
    this.fencingToken = fencingToken;
    this.#ensemble = ensemble;
    this.#terms = terms;
    this.#request = request;
    this.#ttlLongest = request.ttl;
    const granted = answers.map((answer) => (answer?.vote === 'granted' ? terms : null));
    this.#leases = new NodeLeases(granted, ensemble.quorum);
    this.#answers = answers;
  }

  /** The request that the lock was granted for; its `ttl` is the one in force. */
  get request(): OwnerRequest {
    return this.#request;
  }

  /** Why the lock is not held any more; `released` where its holder ended it. */
  get lossReason(): LossReason {
    return this.#end ?? 'released';
  }

  /** Whether the lock is held now. Once false, false for ever. */
  isHeld(): boolean {
    if (this.#end !== null) return false;
    const { environment } = this.#ensemble;
    const now = environment.now();
    const isExpired = now >= this.#leases.validUntil;
    if (!isExpired && !hasSlept(environment, now, this.#leases.clockGapMax)) return true;
    if (isExpired) this.#expire();
    else this.lose('suspended');
    return false;
  }

  /** Whether the claim ended before its holder ended it. */
  isLost(): boolean {
    return !this.isHeld() && this.#end !== 'released';
  }

  /** Whether `maxHold` is over at a time: from then on the lock may not be extended any more. */
  isPastMaxHold(at = this.#ensemble.environment.now()): boolean {
    return this.#care !== null && at - this.acquiredAt >= this.#care.maxHold;
  }

  /** Time the holder may still rely on, in ms; 0 when the lock is not held. */
  remaining(): Milliseconds {
    if (!this.isHeld()) return 0;
    const remaining = this.#leases.validUntil - this.#ensemble.environment.now();
    if (remaining > 0) return remaining;
    // It ended between the two readings of the clock.
    this.#expire();
    return 0;
  }

  /** What the nodes said in the last round of extension. */
  lastVotes(): readonly NodeVote[] {
    return this.#extender?.lastVotes() ?? [];
  }

  /** Begins to look after the lock, or does so anew, when its watchdog was turned on. */
  startCare(care: Care): void {
    this.#care = care;
    // A late answer may have found the lock lost before there was anybody to tell.
    if (this.#end !== null) care.onLost(this.#end);
    this.#watch(this.acquiredAt + this.#request.ttl / 3);
  }

  /** A node answered the acquisition after the quorum was reached. */
  onLateAnswer(node: number, answer: AcquireAnswer): void {
    if (this.#releasing !== null) this.#undoLate(node, answer);
    else if (answer.vote === 'granted' && this.isHeld()) this.#leases.grant(node, this.#terms);
  }

  /**
   * The same lock for another call of this process, which wants it for `ttl`; the nodes keep it as
   * it is. Null when the nodes must be asked: `ttl` is another, what they keep may still change, a
   * tenth of the lock is over, or its block of tokens is.
   * Source: PROTOCOL.md section 10.
   */
  handOver(ttl: Milliseconds): Holding | null {
    const { environment, options } = this.#ensemble;
    const { ttl: granted, token: last } = this.#request;
    const now = environment.now();
    const token = this.fencingToken + Number(options.world.fencing);
    const isSettled = this.#extender === null && !this.#answers.includes(null);
    const isLong = this.#leases.validUntil - now >= ttl * HANDED_OVER_MIN;
    if (!isSettled || !isLong || ttl !== granted || token > last) return null;
    return new Holding(this.#ensemble, this.#request, this.#terms, this.#answers, now, token);
  }

  /** Extends the lock with `ttl`, also for the future; resolves to whether a quorum did so. */
  async extend(ttl: Milliseconds): Promise<boolean> {
    const isRenewed = await this.#extension().extend(ttl);
    if (isRenewed) this.#request = this.extensionRequest(ttl);
    return isRenewed;
  }

  /**
   * Ends the claim and deletes the keys on all nodes in one round; no outcome of it is an error.
   * Resolves after the answers of a quorum or the node timeout; a second call changes nothing.
   */
  release(): Promise<void> {
    // Judged once more, before the check whether a release has begun: this may report a loss, and
    // whoever is told of it may release the lock in turn.
    const wasHeld = this.isHeld();
    if (this.#releasing !== null) return this.#releasing;
    // Noted before anybody is called or told: they may release the lock in turn.
    let finish: () => void;
    this.#releasing = new Promise((resolve) => (finish = resolve));
    this.#releaseOnce(wasHeld, () => finish());
    return this.#releasing;
  }

  /** Ends the claim at once. The keys stay: while a body may still run they protect it. */
  lose(reason: LossReason): void {
    if (this.#end !== null) return;
    this.#end = reason;
    this.#stopCare();
    this.#care?.onLost(reason);
  }

  /** Leaves the lock to its ttl: nothing is extended, told or deleted any more. */
  abandon(): void {
    this.#end ??= 'released';
    this.#stopCare();
  }

  /** The watchdog's call: a third of the ttl has passed since the last extension began. */
  onDue(): void {
    if (this.#care?.isWatchdogOn !== true || !this.isExtendable()) {
      this.#watch(Infinity);
      return;
    }
    const { ttl } = this.#request;
    const now = this.#ensemble.environment.now();
    // If this round fails, the next begins sooner, while most of the lease is left for it.
    this.#watch(now + ttl / 9);
    this.#extension().startRound(ttl, (isRenewed) => {
      if (isRenewed) this.#watch(now + ttl / 3);
    });
  }

  /** @internal Called by the extender. */
  isExtendable(): boolean {
    return this.isHeld() && !this.isPastMaxHold();
  }

  /** @internal Called by the extender. */
  extensionRequest(ttl: Milliseconds): OwnerRequest {
    this.#ttlLongest = Math.max(this.#ttlLongest, ttl);
    return { ...this.#request, ttl };
  }

  /** @internal Called by the extender. */
  onExtensionAnswer(node: number, answer: ExtendAnswer, terms: RoundTerms): void {
    if (this.#releasing !== null) this.#undoLate(node, answer);
    // Judged by the old validity first: an answer that came too late must not revive the lock.
    if (!this.isHeld()) return;
    if (answer.vote === 'granted') this.#leases.grant(node, terms);
    if (answer.vote === 'revoked') this.#revoke(node);
  }

  /** @internal Called by the extender. */
  onExtended(): void {
    this.#care?.onExtended();
  }

  #extension(): Extender {
    return (this.#extender ??= new Extender(this.#ensemble, this));
  }

  #revoke(node: number): void {
    const now = this.#ensemble.environment.now();
    this.#leases.revoke(node, now);
    if (now >= this.#leases.validUntil) this.lose('revoked');
    // The validity may end sooner now, before the watchdog's next call.
    else this.#awaitExpiry();
  }

  #releaseOnce(wasHeld: boolean, finish: () => void): void {
    // The claim ends before the first byte is sent.
    if (wasHeld) this.#end = 'released';
    this.#stopCare();
    const succession = this.#care?.onReleasing() ?? 'others';
    const onDone: OnReleased = (told) => {
      this.#care?.onReleased(wasHeld, told);
      // As in an attempt: late answers must not keep the user of the lock in memory.
      this.#care = null;
      finish();
    };
    if (succession === 'handedOver') {
      onDone(NOBODY);
      return;
    }
    // A node that the acquisition did not reach, an extension may have reached.
    const answers = this.#extender === null ? this.#answers : [];
    askForRelease(this.#ensemble, answers, this.#releaseRequest(succession === 'others'), onDone);
  }

  // A late grant would keep others out until the ttl ends, and nobody else knows of it.
  #undoLate(node: number, answer: AcquireAnswer | ExtendAnswer): void {
    if (mayHoldKeys(answer)) undoAt(this.#ensemble, node, this.#releaseRequest(true));
  }

  #releaseRequest(wakes: boolean): ReleaseRequest {
    return new LockRelease(this.#request, this.#ttlLongest, wakes);
  }

  #watch(dueAt: Milliseconds): void {
    if (this.#end !== null) return;
    if (dueAt < this.#leases.validUntil) this.#ensemble.watchdog.watch(this, dueAt);
    else this.#awaitExpiry();
  }

  // The watchdog's slots are coarse; the end of the validity is reported to the millisecond.
  #awaitExpiry(): void {
    const { environment } = this.#ensemble;
    environment.stopTimer(this.#expiryTimer);
    const onExpiry = (): void => {
      // Less is left than a timer can measure: reported now, the end is reported in time.
      if (this.remaining() < 1) this.#expire();
      // Prolonged by its holder or by late answers: the watchdog, which had stopped, goes on.
      else this.onDue();
    };
    this.#expiryTimer = environment.startTimer(this.remaining(), onExpiry, false);
  }

  // A lock that nobody extends, or that ended before maxHold was over, is ended by its ttl alone.
  #expire(): void {
    const isExtended = this.#care?.isWatchdogOn === true || this.#extender !== null;
    const isByMaxHold = isExtended && this.isPastMaxHold(this.#leases.validUntil);
    this.lose(isByMaxHold ? 'maxHold' : 'expired');
  }

  #stopCare(): void {
    const { environment, watchdog } = this.#ensemble;
    watchdog.unwatch(this);
    environment.stopTimer(this.#expiryTimer);
    this.#extender?.stop();
  }
}
