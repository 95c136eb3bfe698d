// A client's adapter to one server, as PROTOCOL.md sections 9 and 11 describe it: answers belong
// to their connection, a silent server is suspended, then disconnected; each connection begins
// with the certificate step and the releases that could not be delivered before.
import { PendingReleases } from '../../lib/nodes/pending-releases.js';
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
} from '../../lib/core/lock-node.js';
import { wakeChannel } from './script-model.js';
import { SimulatedEars } from './simulated-ears.js';
import type { LeaseCheck } from './checks/lease-check.js';
import type { Connection, Link } from './link.js';
import type { SimulatedEnvironment } from './simulated-machine.js';
import type { Command, Reply } from './simulated-server.js';

/** What adapters of one universe are told. */
export interface AdapterOptions {
  readonly world: World;
  readonly nodeTimeout: number;
  readonly stallTimeout: number;
  readonly reconnectDelay: number;
  /** Answers every acquisition twice: the core promises to count each node once. */
  readonly isRepeating: boolean;
}

interface Outstanding {
  readonly sentAt: number;
  readonly onReply: (reply: Reply) => void;
}

/** What the core knows as one node. */
export class SimulatedNode implements LockNode {
  #connection: Connection | null = null;
  #isReady = false;
  #wasSuspended = false;
  #isStallWatched = false;
  readonly #outstanding = new Map<Command, Outstanding>();
  readonly #pending: PendingReleases<Connection>;
  readonly #ears: SimulatedEars;

  constructor(
    readonly name: string,
    private readonly index: number,
    private readonly environment: SimulatedEnvironment,
    private readonly link: Link,
    private readonly options: AdapterOptions,
    private readonly leases: LeaseCheck,
  ) {
    this.#pending = new PendingReleases(environment);
    this.#ears = new SimulatedEars(environment, link);
    this.#connect();
  }

  acquire(request: OwnerRequest, onAnswer: (answer: AcquireAnswer) => void): void {
    this.#askForLease('acquire', request, (reply) => onAnswer(reply as AcquireAnswer));
  }

  extend(request: OwnerRequest, onAnswer: (answer: ExtendAnswer) => void): void {
    this.#askForLease('extend', request, (reply) => onAnswer(reply as ExtendAnswer));
  }

  release(request: ReleaseRequest, onAnswer: (answer: ReleaseAnswer) => void): void {
    this.leases.released(request);
    const connection = this.#usableConnection();
    if (connection !== null && this.#pending.join(request.ownerId, connection, onAnswer)) return;
    const release = this.#pending.add(request, connection, onAnswer);
    const isListening = this.#ears.isListening(request);
    // By the connection that was found usable before: a machine may stand still in between.
    this.#send(connection, { kind: 'release', request, isListening }, (reply) => {
      if (reply.vote === 'done') this.#pending.confirm(release);
      else release.sentOn = null;
      release.onAnswer?.(reply as ReleaseAnswer);
    });
  }

  inspect(world: World, resource: string, onAnswer: (answer: InspectAnswer) => void): void {
    const command = { kind: 'inspect', world, resource } as const;
    this.#send(this.#usableConnection(), command, onAnswer as (reply: Reply) => void);
  }

  listen(world: World, resource: string, listener: WakeListener): () => void {
    return this.#ears.add(wakeChannel(world, resource), listener, this.#isReady);
  }

  status(): NodeStatus {
    const state = this.#isReady ? 'up' : 'connecting';
    return { name: this.name, state, quarantineRemaining: 0, clockOffset: null, findings: [] };
  }

  /** Whether the server owes an answer: its connection may turn out to be dead. */
  get isOwed(): boolean {
    return this.#outstanding.size > 0;
  }

  /** The process is gone, and its connections with it. */
  end(): void {
    this.#ears.end();
    this.#outstanding.clear();
    if (this.#connection !== null) this.link.close(this.#connection);
    this.#connection = null;
  }

  #askForLease(
    kind: 'acquire' | 'extend',
    request: OwnerRequest,
    onReply: (reply: Reply) => void,
  ): void {
    const askedAt = this.leases.asked(request);
    this.#send(this.#usableConnection(), { kind, request }, (reply) => {
      this.leases.answered(kind, request, this.index, askedAt, reply);
      onReply(reply);
      if (kind === 'acquire' && this.options.isRepeating) onReply(reply);
    });
  }

  #send(connection: Connection | null, command: Command, onReply: (reply: Reply) => void): void {
    if (connection === null) {
      this.environment.machine.runAfter(0, () => {
        if (!this.environment.isEnded) onReply(notSent);
      });
      return;
    }
    this.#write(connection, command, onReply);
  }

  #write(connection: Connection, command: Command, onReply: (reply: Reply) => void): void {
    const { machine } = this.environment;
    const sentAt = machine.monotonic.read(machine.trueNow);
    this.#outstanding.set(command, { sentAt, onReply });
    this.#watchStall(sentAt);
    this.link.send(connection, command, machine.trueNow);
    machine.noteCommand();
  }

  #usableConnection(): Connection | null {
    if (!this.#isReady || this.#silence() > 2 * this.options.nodeTimeout) {
      this.#wasSuspended = this.#isReady;
      return null;
    }
    return this.#connection;
  }

  #silence(): number {
    const { machine } = this.environment;
    for (const { sentAt } of this.#outstanding.values()) {
      return machine.monotonic.read(machine.trueNow) - sentAt;
    }
    return 0;
  }

  #watchStall(sentAt: number): void {
    if (this.#isStallWatched) return;
    this.#isStallWatched = true;
    const { machine } = this.environment;
    const wait = sentAt + this.options.stallTimeout - machine.monotonic.read(machine.trueNow);
    this.environment.startTimer(Math.max(1, wait), () => {
      this.#isStallWatched = false;
      if (this.#silence() >= this.options.stallTimeout) this.#disconnect();
      for (const outstanding of this.#outstanding.values()) {
        this.#watchStall(outstanding.sentAt);
        return;
      }
    });
  }

  #connect(): void {
    const { machine } = this.environment;
    machine.runAfter(this.link.delay() + this.link.delay(), () => {
      if (this.environment.isEnded) return;
      if (this.link.canConnect) this.#onConnected();
      else this.#reconnectLater();
    });
  }

  #reconnectLater(): void {
    this.environment.startTimer(this.options.reconnectDelay, () => {
      this.#connect();
    });
  }

  #onConnected(): void {
    const { machine } = this.environment;
    const connection = this.link.open(
      (reply, command) => {
        machine.run(() => {
          if (connection === this.#connection) this.#onReply(command, reply);
        });
      },
      () => {
        machine.run(() => {
          if (connection === this.#connection) this.#disconnect();
        });
      },
    );
    this.#connection = connection;
    this.#write(connection, { kind: 'certify', world: this.options.world }, (reply) => {
      if (reply.vote === 'certified') this.#onReady();
      else this.#disconnect();
    });
  }

  #onReady(): void {
    this.#isReady = true;
    this.#wasSuspended = false;
    this.#flushReleases();
    this.#ears.subscribe();
  }

  #flushReleases(): void {
    const connection = this.#connection;
    if (connection === null) return;
    for (const release of this.#pending.dueOn(connection)) {
      release.sentOn = connection;
      const { request } = release;
      const isListening = this.#ears.isListening(request);
      this.#write(connection, { kind: 'release', request, isListening }, (reply) => {
        if (reply.vote === 'done') this.#pending.confirm(release);
        else release.sentOn = null;
      });
    }
  }

  #onReply(command: Command, reply: Reply): void {
    const outstanding = this.#outstanding.get(command);
    if (outstanding === undefined || this.environment.isEnded) return;
    this.#outstanding.delete(command);
    outstanding.onReply(reply);
    // A server that has become a replica never writes again on this connection.
    if ('message' in reply && reply.message === 'READONLY') this.#disconnect();
    if (this.#wasSuspended && this.#usableConnection() !== null) this.#onReady();
  }

  #disconnect(): void {
    const connection = this.#connection;
    if (connection === null || this.environment.isEnded) return;
    this.#connection = null;
    this.#isReady = false;
    this.link.close(connection);
    this.#ears.fallDeaf();
    const outstanding = [...this.#outstanding.values()];
    this.#outstanding.clear();
    for (const { onReply } of outstanding) onReply(lost);
    this.#reconnectLater();
  }
}

const notSent: FailedAnswer = {
  vote: 'failed',
  mayHold: false,
  isMisconfiguration: false,
  message: 'not sent',
};

const lost: FailedAnswer = {
  vote: 'failed',
  mayHold: true,
  isMisconfiguration: false,
  message: 'connection lost',
};
