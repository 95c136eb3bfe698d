import { TransientMap } from '../core/transient-map.js';
import type { Environment } from '../core/environment.js';
import type { ReleaseAnswer, ReleaseRequest } from '../core/lock-node.js';
import type { Milliseconds } from '../core/units.js';

type OnAnswer = (answer: ReleaseAnswer) => void;

/** A release that the node has not confirmed. */
export class PendingRelease<Connection> {
  constructor(
    readonly request: ReleaseRequest,
    /** Monotonic: by then the keys have expired by themselves. */
    readonly expiresAt: Milliseconds,
    /** The connection it was written to; null if it was not written, or was refused for a while. */
    public sentOn: Connection | null,
    /** Who waits for the answer, if anybody. */
    public onAnswer: OnAnswer | null,
  ) {}
}

/**
 * The releases that a node has not confirmed, for its next connection. One that was written and
 * never answered is among them: its keys may live on when the connection died first.
 * Source: PROTOCOL.md section 4.7.
 */
export class PendingReleases<Connection> {
  readonly #byOwner = new TransientMap<string, PendingRelease<Connection>>();
  /** Until then none is worth forgetting. */
  #nextSweepAt: Milliseconds = Infinity;

  constructor(private readonly environment: Environment) {}

  /**
   * Notes a release. If it cannot be written now and the list is full, it is forgotten: the keys of
   * earlier releases are more likely to exist, and the ttl ends all of them.
   */
  add(
    request: ReleaseRequest,
    sentOn: Connection | null,
    onAnswer: OnAnswer | null = null,
  ): PendingRelease<Connection> {
    const now = this.environment.now();
    this.forgetExpired(now);
    const expiresAt = now + request.ttl * KEPT_FOR;
    const release = new PendingRelease(request, expiresAt, sentOn, onAnswer);
    if (sentOn !== null || this.#byOwner.size < UNSENT_MAX) {
      // Deleted first, so that the order of the map stays that of the notes.
      this.#byOwner.delete(request.ownerId);
      this.#byOwner.set(request.ownerId, release);
      this.#nextSweepAt = Math.min(this.#nextSweepAt, expiresAt);
    }
    return release;
  }

  /**
   * Lets `onAnswer` wait for the release of this owner that is on its way on `connection`; false
   * when nobody waits for one. That release comes after all that was sent for the owner before,
   * even an acquisition granted late, so a second release would find nothing.
   */
  join(ownerId: string, connection: Connection, onAnswer: OnAnswer): boolean {
    const release = this.#byOwner.get(ownerId);
    const earlier = release?.onAnswer;
    if (release?.sentOn !== connection || earlier == null) return false;
    release.onAnswer = bothOf(earlier, onAnswer);
    return true;
  }

  /** Whether a release was asked for and is not confirmed. */
  has(ownerId: string): boolean {
    return this.#byOwner.has(ownerId);
  }

  /** Forgets a release that the node confirmed, unless a later one of the same owner is noted. */
  confirm(release: PendingRelease<Connection>): void {
    const { ownerId } = release.request;
    if (this.#byOwner.get(ownerId) === release) this.#byOwner.delete(ownerId);
  }

  /** Keeps a release that the node refused, unless too many are kept; says whether it did. */
  keepRefused(release: PendingRelease<Connection>): boolean {
    const isKept = this.#byOwner.size <= REFUSED_MAX;
    if (!isKept) this.confirm(release);
    return isKept;
  }

  /** What is still worth sending on this connection, in the order of the notes. */
  dueOn(connection: Connection): PendingRelease<Connection>[] {
    const now = this.environment.now();
    return [...this.#byOwner.values()].filter(
      ({ expiresAt, sentOn }) => expiresAt > now && sentOn !== connection,
    );
  }

  /** Whether one that was refused is still worth sending: neither noted anew nor expired since. */
  isDue(release: PendingRelease<Connection>): boolean {
    const { request, expiresAt } = release;
    return this.#byOwner.get(request.ownerId) === release && expiresAt > this.environment.now();
  }

  /** Drops what has expired. Called with each release, it keeps the list short without a timer. */
  forgetExpired(now = this.environment.now()): void {
    if (now < this.#nextSweepAt) return;
    // Looks at all, because each has its own ttl, but not at every call.
    this.#nextSweepAt = Infinity;
    for (const { request, expiresAt } of this.#byOwner.values()) {
      if (expiresAt <= now) this.#byOwner.delete(request.ownerId);
      else this.#nextSweepAt = Math.min(this.#nextSweepAt, Math.max(expiresAt, now + SWEEP_MIN));
    }
  }
}

// By itself, because a function that makes a closure makes its context whenever it is called.
function bothOf(one: OnAnswer, other: OnAnswer): OnAnswer {
  return (answer) => {
    one(answer);
    other(answer);
  };
}

/** A node's clock and ours may run apart by a tenth, far more than `driftFactor` allows. */
const KEPT_FOR = 1.1;

const UNSENT_MAX = 4_096;

/** Some 20 MB. A server that no longer writes refuses releases of which many have keys there. */
const REFUSED_MAX = 32_768;

/** Time between two looks at all: one at 4,096 releases takes a twentieth of a millisecond. */
const SWEEP_MIN: Milliseconds = 10;
