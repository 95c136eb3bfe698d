// The releases of one node: sent, and sent again until it has confirmed them or their keys have
// expired, because a key that stays keeps others out.
import type { Environment, TimerHandle } from '../core/environment.js';
import type { FailedAnswer, ReleaseAnswer, ReleaseRequest } from '../core/lock-node.js';
import type { Milliseconds } from '../core/units.js';
import type { NodeHealth } from './node-health.js';
import { PendingReleases, type PendingRelease } from './pending-releases.js';
import type { RedisBatch } from './redis-batch.js';
import type { RedisConnection } from './redis-connection.js';
import { readOnce, readReleased } from './redis-replies.js';
import { wakeChannel } from './redis-script-arguments.js';
import type { RedisSubscriber } from './redis-subscriber.js';

/** What {@link RedisReleases} need in order to be sent. */
export interface ReleasesSettings {
  readonly environment: Environment;
  readonly batch: RedisBatch;
  readonly health: NodeHealth;
  readonly subscriber: RedisSubscriber;
  /** The connection that takes commands now, if any. */
  readonly usable: () => RedisConnection | null;
}

/** How soon one of the refused releases is tried again: others may wait for its lock. */
const RETRY: Milliseconds = 250;

/** The releases that a node was asked for and has not confirmed. */
export class RedisReleases {
  readonly #settings: ReleasesSettings;
  readonly #pending: PendingReleases<RedisConnection>;
  // Those that were refused for a while: tried next are those of `#next`, and when it is empty
  // those that were refused meanwhile, so that each has its turn.
  #next: PendingRelease<RedisConnection>[] = [];
  #refused: PendingRelease<RedisConnection>[] = [];
  /** Whether one was refused since the last try. */
  #hasRefused = false;
  #retryTimer: TimerHandle = null;

  constructor(settings: ReleasesSettings) {
    this.#settings = settings;
    this.#pending = new PendingReleases(settings.environment);
  }

  /** Keeps a release that cannot be sent now for the next connection. */
  keep(request: ReleaseRequest): void {
    this.#pending.add(request, null);
  }

  /** Sends a release, unless one of its owner is on its way: then `onAnswer` waits for that. */
  send(
    connection: RedisConnection,
    request: ReleaseRequest,
    onAnswer: (answer: ReleaseAnswer) => void,
  ): void {
    if (this.#pending.join(request.ownerId, connection, onAnswer)) return;
    this.#send(connection, this.#pending.add(request, connection, onAnswer));
  }

  /** Sends all that `connection` was not asked for yet. */
  sendDue(connection: RedisConnection): void {
    this.#next = [];
    this.#refused = [];
    this.#sendAgain(connection, this.#pending.dueOn(connection), null);
  }

  /** The node has voted: it may now take what it refused before. */
  onVote(): void {
    if (this.#hasRefused) this.#sendRefused(1);
  }

  /** Whether a release was asked for and is not confirmed. */
  has(ownerId: string): boolean {
    return this.#pending.has(ownerId);
  }

  /** Drops what has expired. Called also when nothing new is kept, for a node that stays away. */
  forgetExpired(): void {
    this.#pending.forgetExpired();
  }

  /** From now on, what was refused is not tried again. */
  close(): void {
    this.#settings.environment.stopTimer(this.#retryTimer);
  }

  #send(connection: RedisConnection, release: PendingRelease<RedisConnection>): void {
    release.sentOn = connection;
    const isListening = this.#isListening(release.request);
    const operation = new ReleaseOperation(release, isListening, this.#onReleased);
    this.#settings.batch.add(connection, operation);
  }

  // Whether the node would count this process among those who are told. It is one answer for all
  // resources: for those it does not listen for, one too few are counted, which costs fairness.
  #isListening({ wakes, world, resources }: ReleaseRequest): boolean {
    const { subscriber } = this.#settings;
    if (!wakes || subscriber.isIdle) return false;
    return resources.some((resource) => subscriber.isLive(wakeChannel(world, resource)));
  }

  readonly #readReleased = readOnce(readReleased);

  readonly #onReleased = (
    release: PendingRelease<RedisConnection>,
    failure: FailedAnswer | null,
    reply: unknown,
  ): void => {
    const answer = failure ?? this.#readReleased(reply);
    if (answer.vote === 'done') {
      this.#pending.confirm(release);
      this.#settings.health.noteGrant('releases');
    } else {
      this.#onRefused(release, answer);
    }
    const { onAnswer } = release;
    // Whether or not it is sent again, whoever waited is answered now, and not kept in memory.
    release.onAnswer = null;
    onAnswer?.(answer);
  };

  // What a busy server refused is sent again when it works again, all else on the next connection.
  #onRefused(release: PendingRelease<RedisConnection>, reason: FailedAnswer): void {
    const { health, usable } = this.#settings;
    const isKept = this.#pending.keepRefused(release);
    if (reason.isMisconfiguration) {
      health.noteRefusal('releases', reason.message);
      return;
    }
    release.sentOn = null;
    if (!isKept || usable() === null) return;
    this.#hasRefused = true;
    this.#refused.push(release);
    this.#retryTimer ??= this.#startRetry();
  }

  // A process that asks for nothing else has no vote to tell it that the server works again.
  #startRetry(): TimerHandle {
    const retry = (): void => {
      this.#retryTimer = null;
      this.#sendRefused(1);
    };
    return this.#settings.environment.startTimer(RETRY, retry, false);
  }

  readonly #onSentAgain = (): void => {
    if (!this.#hasRefused) this.#sendRefused(2);
  };

  // Many a vote needs no write, so it does not promise that one would work. One release is tried,
  // then two for each that was not refused again: if the server works all are sent soon, else few.
  #sendRefused(count: number): void {
    const connection = this.#settings.usable();
    if (connection === null) return;
    this.#sendAgain(connection, this.#takeRefused(count), this.#onSentAgain);
  }

  // Not looked for among all that are pending: with thousands, that would stop the process.
  #takeRefused(count: number): PendingRelease<RedisConnection>[] {
    const taken: PendingRelease<RedisConnection>[] = [];
    while (taken.length < count) {
      if (this.#next.length === 0) [this.#next, this.#refused] = [this.#refused, []];
      const release = this.#next.pop();
      if (release === undefined) break;
      if (this.#pending.isDue(release)) taken.push(release);
    }
    return taken;
  }

  #sendAgain(
    connection: RedisConnection,
    releases: readonly PendingRelease<RedisConnection>[],
    onAnswer: (() => void) | null,
  ): void {
    this.#hasRefused = false;
    for (const release of releases) {
      release.onAnswer = onAnswer;
      this.#send(connection, release);
    }
  }
}

// A class rather than closures, for there is one for each lock and node.
class ReleaseOperation {
  readonly name = 'release';

  constructor(
    readonly release: PendingRelease<RedisConnection>,
    readonly isListening: boolean,
    readonly onReleased: (
      release: PendingRelease<RedisConnection>,
      failure: FailedAnswer | null,
      reply: unknown,
    ) => void,
  ) {}

  get request(): ReleaseRequest {
    return this.release.request;
  }

  isSettled(): boolean {
    return false;
  }

  onReply(failure: FailedAnswer | null, reply: unknown): void {
    this.onReleased(this.release, failure, reply);
  }
}
