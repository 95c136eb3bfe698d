import { inMicrotask, type Environment } from '../core/environment.js';
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
import { NodeHealth } from './node-health.js';
import type { NodePeers } from './redis-audit.js';
import type { RedisConnection } from './redis-connection.js';
import { RedisBatch } from './redis-batch.js';
import { encodeCommand } from './redis-command.js';
import { RedisLink } from './redis-link.js';
import { isReadOnly, isRefusal, isUnknownScript } from './redis-outcomes.js';
import { RedisReleases } from './redis-releases.js';
import {
  readAcquired,
  readExtended,
  readInspected,
  readOnce,
  readReleaseRefusal,
} from './redis-replies.js';
import { commonWakeChannel, inspectArguments, wakeChannel } from './redis-script-arguments.js';
import { inspectScript } from './redis-scripts.js';
import { RedisSubscriber } from './redis-subscriber.js';
import type { RedisTarget } from './redis-target.js';
import type { RedisTick } from './redis-tick.js';

/** What a {@link RedisNode} needs besides its server. */
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
 * It connects, and reconnects, by itself until it is closed.
 */
export class RedisNode implements LockNode {
  readonly name: string;
  readonly #health: NodeHealth;
  readonly #link: RedisLink;
  readonly #batch: RedisBatch;
  readonly #releases: RedisReleases;
  readonly #subscriber: RedisSubscriber;
  /** The latest connection that took commands. */
  #connection: RedisConnection | null = null;
  #closing: Promise<void> | null = null;

  constructor(target: RedisTarget, settings: RedisNodeSettings) {
    const { environment, isPersistent, observer, options, peers, tick } = settings;
    this.name = target.name;
    this.#health = new NodeHealth(target.name, environment, observer);
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
      nodeTimeout: nodeTimeoutOf(options, options.ttl),
      stallTimeout: options.stallTimeout,
      environment,
      health: this.#health,
      peers,
      onUsable: (connection) => {
        if (connection !== this.#connection) this.#subscriber.renew();
        this.#connection = connection;
        this.#releases.sendDue(connection);
      },
    });
    this.#batch = new RedisBatch(tick, isPersistent, this.#link.send);
    this.#releases = new RedisReleases({
      environment,
      batch: this.#batch,
      health: this.#health,
      subscriber: this.#subscriber,
      usable: () => this.#link.usable(),
    });
  }

  acquire(request: OwnerRequest, onAnswer: (answer: AcquireAnswer) => void): void {
    this.#askForOwner('acquire', request, this.#readAcquired, onAnswer);
  }

  extend(request: OwnerRequest, onAnswer: (answer: ExtendAnswer) => void): void {
    this.#askForOwner('extend', request, this.#readExtended, onAnswer);
  }

  release(request: ReleaseRequest, onAnswer: (answer: ReleaseAnswer) => void): void {
    const connection = this.#link.usable();
    if (connection === null) {
      this.#releases.keep(request);
      this.#answerUnsent(onAnswer);
    } else {
      this.#releases.send(connection, request, onAnswer);
    }
  }

  inspect(world: World, resource: string, onAnswer: (answer: InspectAnswer) => void): void {
    const connection = this.#link.usable();
    if (connection === null) {
      this.#answerUnsent(onAnswer);
      return;
    }
    // In the order of the calls.
    this.#batch.flush();
    this.#link.certify(connection);
    const { sha, text } = inspectScript(world);
    const args = inspectArguments(world, resource);
    const onReply = (failure: FailedAnswer | null, reply: unknown): void => {
      const answer = failure ?? readInspected(reply);
      if (answer.vote === 'found') this.#heardOfTries(answer, readReleaseRefusal(reply));
      else if (isReadOnly(answer)) connection.end(answer);
      onAnswer(answer);
    };
    this.#link.send(connection, encodeCommand('evalsha', [sha, ...args]), (failure, reply) => {
      if (failure === null || !isUnknownScript(failure)) onReply(failure, reply);
      else this.#link.send(connection, encodeCommand('eval', [text, ...args]), onReply);
    });
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
    this.#releases.close();
    this.#closing ??= this.#link.close();
    return this.#closing;
  }

  #askForOwner<Answer>(
    name: 'acquire' | 'extend',
    request: OwnerRequest,
    read: (failure: FailedAnswer | null, reply: unknown) => Answer | FailedAnswer,
    onAnswer: (answer: Answer | FailedAnswer) => void,
  ): void {
    const connection = this.#link.usable();
    if (connection === null) {
      this.#releases.forgetExpired();
      this.#answerUnsent(onAnswer);
    } else {
      const operation = new OwnerOperation(name, request, read, onAnswer, this.#releases);
      this.#batch.add(connection, operation);
    }
  }

  readonly #readAcquired = (failure: FailedAnswer | null, reply: unknown): AcquireAnswer => {
    if (failure !== null) return this.#heardOfFailure(failure);
    const answer = this.#readAcquiredOnce(reply);
    if (answer.vote !== 'failed') this.#releases.onVote();
    const isStored = answer.vote === 'granted' || answer.vote === 'quarantined';
    if (isStored) this.#health.noteGrant('locks');
    return answer;
  };

  readonly #readAcquiredOnce = readOnce((reply): AcquireAnswer => {
    const answer = readAcquired(reply);
    if ('nodeTime' in answer && answer.nodeTime > 0) this.#health.noteTime(answer.nodeTime);
    if (answer.vote === 'quarantined') this.#health.noteQuarantine(answer.remaining);
    return answer;
  });

  readonly #readExtended = (failure: FailedAnswer | null, reply: unknown): ExtendAnswer =>
    failure === null ? this.#readExtendedOnce(reply) : this.#heardOfFailure(failure);

  readonly #readExtendedOnce = readOnce((reply): ExtendAnswer => {
    const answer = readExtended(reply);
    if (answer.vote === 'quarantined') this.#health.noteQuarantine(answer.remaining);
    return answer;
  });

  #heardOfTries(
    { ownerId, refusal }: Extract<InspectAnswer, { vote: 'found' }>,
    releaseRefusal: string | null,
  ): void {
    if (refusal !== '') this.#health.noteRefusal('locks', refusal);
    else if (ownerId === null) this.#health.noteGrant('locks');
    if (releaseRefusal === '') this.#health.noteGrant('releases');
    else if (releaseRefusal !== null) this.#health.noteRefusal('releases', releaseRefusal);
  }

  #heardOfFailure(failure: FailedAnswer): FailedAnswer {
    if (isRefusal(failure)) this.#health.noteRefusal('locks', failure.message);
    return failure;
  }

  #answerUnsent(onAnswer: (answer: FailedAnswer) => void): void {
    const { failure } = this.#health;
    inMicrotask(() => onAnswer(failure));
  }
}

// A class rather than closures, for there is one for each lock and node.
class OwnerOperation<Answer> {
  constructor(
    readonly name: 'acquire' | 'extend',
    readonly request: OwnerRequest,
    readonly read: (failure: FailedAnswer | null, reply: unknown) => Answer | FailedAnswer,
    readonly onAnswer: (answer: Answer | FailedAnswer) => void,
    readonly releases: RedisReleases,
  ) {}

  isSettled(): boolean {
    return this.releases.has(this.request.ownerId);
  }

  onReply(failure: FailedAnswer | null, reply: unknown): void {
    this.onAnswer(this.read(failure, reply));
  }
}
