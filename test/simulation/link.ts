// The network between one client and one server: connections, each with commands and answers in
// order, and what may happen to them. Nothing is lost inside a connection; it ends instead.
import type { Told } from '../../lib/core/lock-node.js';
import type { Random } from './random.js';
import type { Scheduler } from './scheduler.js';
import type { Command, Reply, SimulatedServer } from './simulated-server.js';

/** Said of no release. */
const FORGED: Told = { listeners: 1, overdue: 0 };

/** The client's end of a connection. */
export interface Connection {
  readonly onReply: (reply: Reply, command: Command) => void;
  /** Called when the other side ended it, at once or only after the client has tried to write. */
  readonly onReset: () => void;
  /** Cleared by the client, whose end it is. */
  isOpen: boolean;
  /** Cleared by the server's crash: nothing arrives any more. */
  isAlive: boolean;
  /** What is on its way when the client closes: dropped, or delivered this much later. */
  linger: number | null;
  commandsUntil: number;
  repliesUntil: number;
}

interface Message {
  readonly connection: Connection;
  readonly deliver: () => void;
}

/** One client's way to one server. */
export class Link {
  /** Added to every delay. */
  extraDelay = 0;
  /** Every command is run a second time, this much later. Null: once. */
  duplicateDelay: number | null = null;
  readonly #connections = new Set<Connection>();
  #areCommandsBlocked = false;
  #areRepliesBlocked = false;
  #held: Message[] = [];

  constructor(
    protected readonly scheduler: Scheduler,
    private readonly random: Random,
    protected readonly server: SimulatedServer,
    private readonly delayMax: number,
    private readonly distance: number,
    private readonly trace: ((message: string) => void) | null,
  ) {}

  get isBlocked(): boolean {
    return this.#areCommandsBlocked || this.#areRepliesBlocked;
  }

  get canConnect(): boolean {
    return this.server.isUp && !this.isBlocked;
  }

  delay(): number {
    return 0.1 + this.distance + this.random.next() * this.delayMax + this.extraDelay;
  }

  open(onReply: Connection['onReply'], onReset: () => void): Connection {
    const connection: Connection = {
      onReply,
      onReset,
      isOpen: true,
      isAlive: true,
      linger: null,
      commandsUntil: 0,
      repliesUntil: 0,
    };
    this.#connections.add(connection);
    return connection;
  }

  /** The client closes: what is on its way may still arrive, later. */
  close(connection: Connection): void {
    connection.isOpen = false;
    this.#connections.delete(connection);
    if (this.random.chance(0.5)) connection.linger = this.random.next() ** 2 * 1_500;
  }

  send(connection: Connection, command: Command, sentAt: number): void {
    const arrival = Math.max(sentAt + this.delay(), connection.commandsUntil);
    connection.commandsUntil = arrival;
    const deliver = (): void => {
      this.#run(connection, command, false);
    };
    const arrive = (): void => {
      this.#arrive({ connection, deliver });
    };
    this.scheduler.at(arrival, arrive, connection);
  }

  /**
   * Subscribes at the server, as good as it goes: a message may be lost, come twice, or come
   * although nothing was published. Gives the end of the subscription.
   */
  subscribe(channel: string, onLive: () => void, onMessage: (told: Told) => void): () => void {
    const hear = (told: Told): void => {
      for (const delay of this.wakeDelays()) this.#later(delay, () => onMessage(told));
    };
    let isStopped = false;
    this.#later(this.delay(), () => {
      if (!this.server.isUp || isStopped) return;
      this.server.subscribe(channel, hear);
      this.#later(this.delay(), onLive);
      if (this.random.chance(0.1)) this.#later(this.delay(), () => onMessage(FORGED));
    });
    return () => {
      isStopped = true;
      this.server.unsubscribe(channel, hear);
    };
  }

  /** All connections end on the way; the client learns of it at once. */
  reset(): void {
    for (const connection of [...this.#connections]) connection.onReset();
  }

  /** The server is gone. `isSilent`: without a word, as when its machine loses power. */
  serverCrashed(isSilent: boolean): void {
    for (const connection of [...this.#connections]) {
      connection.isAlive = false;
      if (!isSilent) this.scheduler.after(this.delay(), connection.onReset);
    }
  }

  block(direction: 'both' | 'commands' | 'replies'): void {
    if (direction !== 'replies') this.#areCommandsBlocked = true;
    if (direction !== 'commands') this.#areRepliesBlocked = true;
  }

  /** Ends all partitions: what was held up arrives now, in order. */
  unblock(): void {
    this.#areCommandsBlocked = false;
    this.#areRepliesBlocked = false;
    const held = this.#held;
    this.#held = [];
    for (const message of held) message.deliver();
  }

  /** How long what was published is on its way: not at all where it is lost, or twice. */
  protected wakeDelays(): number[] {
    if (this.random.chance(0.1)) return [];
    const delay = this.delay();
    return this.random.chance(0.1) ? [delay, this.delay()] : [delay];
  }

  protected sendBack(connection: Connection, reply: Reply, command: Command): void {
    const arrival = Math.max(this.scheduler.now + this.delay(), connection.repliesUntil);
    connection.repliesUntil = arrival;
    const deliver = (): void => {
      if (connection.isOpen) connection.onReply(reply, command);
    };
    const arrive = (): void => {
      if (this.#areRepliesBlocked) this.#held.push({ connection, deliver });
      else deliver();
    };
    this.scheduler.at(arrival, arrive, connection);
  }

  // By a connection of its own, which a partition silences.
  #later(delay: number, arrive: () => void): void {
    this.scheduler.after(delay, () => {
      if (!this.isBlocked) arrive();
    });
  }

  // One message of a connection held up holds up all after it.
  #arrive(message: Message): void {
    const { connection } = message;
    if (!connection.isAlive) {
      // A server that knows nothing of the connection answers so, if it is there.
      if (this.server.isUp && !this.isBlocked && connection.isOpen) connection.onReset();
    } else if (this.#areCommandsBlocked) this.#held.push(message);
    else if (connection.isOpen) message.deliver();
    else if (connection.linger !== null) {
      this.scheduler.after(connection.linger, () => {
        if (connection.isAlive) message.deliver();
      });
    }
  }

  #run(connection: Connection, command: Command, isRepeated: boolean): void {
    const isLate = isRepeated || !connection.isOpen;
    const answer = (reply: Reply): void => {
      this.trace?.(describeExchange(this.server.name, command, reply, isLate));
      if (!isRepeated) this.sendBack(connection, reply, command);
    };
    if (!isRepeated && this.duplicateDelay !== null) {
      this.scheduler.after(this.random.next() * this.duplicateDelay, () => {
        this.#run(connection, command, true);
      });
    }
    this.server.receive({ command, isLate, answer });
  }
}

function describeExchange(server: string, command: Command, reply: Reply, isLate: boolean): string {
  const owner = 'request' in command ? ` ${command.request.ownerId}` : '';
  const remaining = 'remaining' in reply ? ` ${reply.remaining} ms` : '';
  const late = isLate ? ' (late)' : '';
  return `${server} ${command.kind}${owner}${late}: ${reply.vote}${remaining}`;
}
