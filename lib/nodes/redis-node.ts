import { inMicrotask, type Environment, type TimerHandle } from '../core/environment.js';
import type {
  AcquireAnswer,
  ExtendAnswer,
  FailedAnswer,
  InspectAnswer,
  LockNode,
  NodeStatus,
  OwnerRequest,
  ReleaseAnswer,
  ReleaseRequest,
  WakeListener,
  World,
} from '../core/lock-node.js';
import type { RedlockObserver } from '../core/observer.js';
import { nodeTimeoutOf, type ResolvedOptions } from '../core/options.js';
import type { Milliseconds } from '../core/units.js';
import { NodeHealth } from './node-health.js';
import { PendingReleases, type PendingRelease } from './pending-releases.js';
import type { NodePeers } from './redis-audit.js';
import type { RedisConnection } from './redis-connection.js';
import { OwnerOperation, RedisBatch, ReleaseOperation } from './redis-batch.js';
import { encodeCommand } from './redis-command.js';
import { RedisLink } from './redis-link.js';
import { readAcquired, readExtended, readInspected, readReleased } from './redis-replies.js';
import { commonWakeChannel, inspectArguments, wakeChannel } from './redis-script-arguments.js';
import { INSPECT } from './redis-scripts.js';
import { RedisSubscriber } from './redis-subscriber.js';
import type { RedisTarget } from './redis-target.js';
import type { RedisTick } from './redis-tick.js';

/** What a {@link RedisNode} needs beside its server. */
export interface RedisNodeSettings {
  /** The server keeps every acknowledged write over restarts, and never fails over. */
  readonly isPersistent: boolean;
  readonly options: ResolvedOptions;
  readonly environment: Environment;
  readonly observer: RedlockObserver;
  // Shared by the nodes of one set.
  readonly peers: NodePeers;
  readonly tick: RedisTick;
}

/**
 * A Redis or Valkey master, over a connection of its own. An operation on a node that is not
 * connected, or silent for too long, fails at once and nothing is sent; only releases are kept.
 * It connects, and connects anew, by itself until it is closed.
 */
export class RedisNode implements LockNode {
  readonly name: string;
  readonly #health: NodeHealth;
  readonly #releases: PendingReleases<RedisConnection>;
  readonly #link: RedisLink;
  readonly #environment: Environment;
  readonly #closeTimeout: Milliseconds;
  readonly #batch: RedisBatch;
  readonly #subscriber: RedisSubscriber;
  /** The latest that took commands. */
  #connection: RedisConnection | null = null;
  #hasRefusedReleases = false;
  #retryTimer: TimerHandle = null;
  #closing: Promise<void> | null = null;

  constructor(target: RedisTarget, settings: RedisNodeSettings) {
    const { environment, isPersistent, observer, options, peers, tick } = settings;
    const nodeTimeout = nodeTimeoutOf(options, options.ttl);
    this.name = target.name;
    this.#environment = environment;
    this.#closeTimeout = nodeTimeout;
    this.#health = new NodeHealth(target.name, environment, observer);
    this.#releases = new PendingReleases(environment);
    this.#subscriber = new RedisSubscriber(
      target,
      environment,
      commonWakeChannel(options.world),
      options.stallTimeout,
    );
    this.#link = new RedisLink({
      target,
      isPersistent,
      world: options.world,
      suspendAfter: 2 * nodeTimeout,
      stallTimeout: options.stallTimeout,
      environment,
      health: this.#health,
      peers,
      onUsable: (connection) => {
        if (connection !== this.#connection) this.#subscriber.renew();
        this.#connection = connection;
        this.#sendDue(connection);
      },
    });
    this.#batch = new RedisBatch(tick, isPersistent, this.#link.send);
  }

  acquire(request: OwnerRequest, onAnswer: (answer: AcquireAnswer) => void): void {
    this.#askForOwner('acquire', request, this.#readAcquired, onAnswer);
  }

  extend(request: OwnerRequest, onAnswer: (answer: ExtendAnswer) => void): void {
    this.#askForOwner('extend', request, this.#readExtended, onAnswer);
  }

  release(request: ReleaseRequest, onAnswer: (answer: ReleaseAnswer) => void): void {
    const connection = this.#usable();
    if (connection === null) {
      this.#releases.add(request, null);
      this.#answerUnsent(onAnswer);
    } else if (!this.#releases.join(request.ownerId, connection, onAnswer)) {
      this.#sendRelease(connection, this.#releases.add(request, connection, onAnswer));
    }
  }

  inspect(world: World, resource: string, onAnswer: (answer: InspectAnswer) => void): void {
    const connection = this.#usable();
    if (connection === null) {
      this.#answerUnsent(onAnswer);
      return;
    }
    // In the order of the calls; with its text: it is too rare to be kept by the server.
    this.#batch.flush();
    const args = [INSPECT, ...inspectArguments(world, resource)];
    this.#link.send(connection, encodeCommand('eval', args), (failure, reply) =>
      onAnswer(failure ?? readInspected(reply)),
    );
  }

  listen(world: World, resource: string, listener: WakeListener): () => void {
    return this.#subscriber.subscribe(wakeChannel(world, resource), listener);
  }

  status(): NodeStatus {
    return this.#health.status();
  }

  /** Resolves when the node is up, or known not to be, for the first time. Never rejects. */
  get firstOutcome(): Promise<void> {
    return this.#health.firstOutcome;
  }

  /**
   * Sends what was asked for, waits for the answers (at most the `nodeTimeout`) and disconnects.
   * What is still unanswered then fails; later operations fail at once.
   */
  close(): Promise<void> {
    this.#batch.flush();
    this.#subscriber.close();
    this.#environment.stopTimer(this.#retryTimer);
    this.#closing ??= this.#link.close(this.#closeTimeout);
    return this.#closing;
  }

  // What was usable for the first operation of a tick is so for all of them.
  #usable(): RedisConnection | null {
    return this.#batch.connection ?? this.#link.usable();
  }

  #askForOwner<Answer>(
    name: 'acquire' | 'extend',
    request: OwnerRequest,
    read: (reply: unknown) => Answer | FailedAnswer,
    onAnswer: (answer: Answer | FailedAnswer) => void,
  ): void {
    const connection = this.#usable();
    if (connection === null) {
      // Of a node that stays away none is noted any more.
      this.#releases.forgetExpired();
      this.#answerUnsent(onAnswer);
    } else {
      const operation = new OwnerOperation(name, request, read, onAnswer, this.#releases);
      this.#batch.add(connection, operation);
    }
  }

  readonly #readAcquired = (reply: unknown): AcquireAnswer => {
    const answer = this.#readNews(reply);
    if (answer.vote !== 'failed' && this.#hasRefusedReleases) this.#sendRefused(1);
    return answer;
  };

  readonly #readNews = readOnce((reply): AcquireAnswer => {
    const answer = readAcquired(reply);
    if ('nodeTime' in answer && answer.nodeTime > 0) this.#health.heard(answer.nodeTime);
    if (answer.vote === 'quarantined') this.#health.quarantined(answer.remaining);
    return answer;
  });

  readonly #readExtended = readOnce(readExtended);

  readonly #readReleased = readOnce(readReleased);

  #sendRelease(connection: RedisConnection, release: PendingRelease<RedisConnection>): void {
    release.sentOn = connection;
    const isListening = this.#isListening(release.request);
    this.#batch.add(connection, new ReleaseOperation(release, isListening, this.#onReleased));
  }

  readonly #onReleased = (
    release: PendingRelease<RedisConnection>,
    failure: FailedAnswer | null,
    reply: unknown,
  ): void => {
    const answer = failure ?? this.#readReleased(reply);
    if (answer.vote === 'done') this.#releases.confirm(release);
    else this.#onRefused(release, answer);
    const { onAnswer } = release;
    // Sent again or not, whoever waited has been answered, and is not kept in memory for it.
    release.onAnswer = null;
    onAnswer?.(answer);
  };

  // By a server that is busy: sent again when it works again. Else on the next connection.
  #onRefused(release: PendingRelease<RedisConnection>, reason: FailedAnswer): void {
    if (reason.isMisconfiguration) {
      this.#health.found(`It refuses releases: ${reason.message}.`);
    } else {
      this.#hasRefusedReleases = true;
      this.#releases.postpone(release);
      if (this.#closing === null) this.#retryTimer ??= this.#startRetry();
    }
  }

  // A process that asks for nothing else has no vote to tell it that the server works again.
  #startRetry(): TimerHandle {
    const retry = (): void => {
      this.#retryTimer = null;
      if (this.#hasRefusedReleases) this.#sendRefused(1);
    };
    return this.#environment.startTimer(RELEASE_RETRY, retry, false);
  }

  // Whether the node would count this process among those who are told. Said of all resources at
  // once: for those that it does not listen for one too few are counted, which costs fairness.
  #isListening({ wakes, world, resources }: ReleaseRequest): boolean {
    if (!wakes || this.#subscriber.isIdle) return false;
    return resources.some((resource) => this.#subscriber.isLive(wakeChannel(world, resource)));
  }

  // Many a vote needs no write, and so promises none. One release is tried, and two for each that
  // was not refused again: all are sent soon where the server works, and few where it does not.
  #sendRefused(count: number): void {
    const connection = this.#usable();
    if (connection !== null) this.#sendDue(connection, count);
  }

  readonly #onSentAgain = (): void => {
    if (!this.#hasRefusedReleases) this.#sendRefused(2);
  };

  #sendDue(connection: RedisConnection, count = Infinity): void {
    this.#hasRefusedReleases = false;
    for (const release of this.#releases.dueOn(connection).slice(0, count)) {
      release.onAnswer = count < Infinity ? this.#onSentAgain : null;
      this.#sendRelease(connection, release);
    }
  }

  #answerUnsent(onAnswer: (answer: FailedAnswer) => void): void {
    const { failure } = this.#health;
    inMicrotask(() => onAnswer(failure));
  }
}

// A batch gives the same reply to all that it answers alike: they are read once. Without fencing
// every plain reply is the same, so `read` must do nothing that is due with each of them.
function readOnce<Answer>(read: (reply: unknown) => Answer): (reply: unknown) => Answer {
  let last: { readonly reply: unknown; readonly answer: Answer } | null = null;
  return (reply) => {
    if (last === null || last.reply !== reply) last = { reply, answer: read(reply) };
    return last.answer;
  };
}

/** How soon one of the refused releases is tried again: others may wait for its lock. */
const RELEASE_RETRY: Milliseconds = 250;
