// The parts of a universe in which nothing is drawn: where the simulation asks a random number,
// these ask the choices of a play.
import { Link } from '../link.js';
import { Random } from '../random.js';
import { Scheduler } from '../scheduler.js';
import { SimulatedMachine } from '../simulated-machine.js';
import { SimulatedServer } from '../simulated-server.js';
import type { Connection } from '../link.js';
import type { SimulatedEvent } from '../scheduler.js';
import type { Command, Delivery, Reply } from '../simulated-server.js';
import type { Parts } from '../universe.js';
import type { Choices } from './choices.js';
import type { Fates, ServerFault } from './fates.js';

/** What the parts of one play share. */
export interface PlayContext {
  readonly choices: Choices;
  readonly fates: Fates;
  /** Called before each event. */
  beforeEvent(): void;
  /** Called after each thing that a client has done. */
  afterAct(): void;
  /** Makes a fault happen at the server of that name. */
  befall(server: string, fault: ServerFault): void;
}

/** The parts of one play. */
export function chosenParts(context: PlayContext): Parts {
  return {
    scheduler: new ChosenScheduler(context),
    newRandom: (_, stream) => new EvenRandom(stream),
    newServer: (...given) => new ChosenServer(context, ...given),
    newMachine: (...given) => new ChosenMachine(context, ...given),
    newLink: (...given) => new ChosenLink(context, ...given),
  };
}

/** Always the same, by which what is seldom does not happen; another for each client. */
class EvenRandom extends Random {
  constructor(private readonly stream: number) {
    super(0, stream);
  }

  override next(): number {
    return 0.5 + ((this.stream * 2) % 5) / 10;
  }
}

/** Of the events of one instant each may be the last. */
class ChosenScheduler extends Scheduler {
  readonly #askedAt = new WeakMap<SimulatedEvent, number>();

  constructor(private readonly context: PlayContext) {
    super();
  }

  protected override pop(until: number): SimulatedEvent | null {
    this.context.beforeEvent();
    const { choices, fates } = this.context;
    for (;;) {
      const event = super.pop(until);
      if (event?.action == null || !choices.isLive) return event;
      const rest = this.#restOf(event);
      const followers = rest.filter(({ source }) => source !== null && source === event.source);
      const isAlone = followers.length === rest.length;
      const isAsked = this.#askedAt.get(event) === event.time;
      this.#askedAt.set(event, event.time);
      const isLast = !isAlone && !isAsked && choices.ask('event', fates.order) !== null;
      for (const other of rest) if (!isLast || !followers.includes(other)) this.push(other);
      if (!isLast) return event;
      for (const late of [event, ...followers]) this.putLast(late);
    }
  }

  /** The other events of its instant; taken out. */
  #restOf({ time }: SimulatedEvent): SimulatedEvent[] {
    const rest: SimulatedEvent[] = [];
    for (let next = super.pop(time); next !== null; next = super.pop(time)) {
      if (next.action !== null) rest.push(next);
    }
    return rest;
  }
}

/** May stand still after each read of a clock, and draw the lowest or the highest value. */
class ChosenMachine extends SimulatedMachine {
  constructor(
    private readonly context: PlayContext,
    ...given: ConstructorParameters<typeof SimulatedMachine>
  ) {
    super(...given);
  }

  override perform(action: () => void): void {
    super.perform(action);
    this.context.afterAct();
  }

  override draw(): number {
    const { choices, fates } = this.context;
    return choices.ask(`a random value of ${this.name}`, fates.random)?.value ?? super.draw();
  }

  protected override noteRead(): void {
    const { choices, fates } = this.context;
    const fate = choices.ask(this.name, fates.pause);
    if (fate !== null) this.pause(fate.duration);
  }
}

/** Slows down each message, or ends its connection, as it is chosen. */
class ChosenLink extends Link {
  constructor(
    private readonly context: PlayContext,
    ...given: ConstructorParameters<typeof Link>
  ) {
    super(...given);
  }

  override open(...given: Parameters<Link['open']>): Connection {
    const connection = super.open(...given);
    connection.linger = 0;
    return connection;
  }

  override close(connection: Connection): void {
    const { linger } = connection;
    super.close(connection);
    connection.linger = linger;
  }

  override send(connection: Connection, command: Command, sentAt: number): void {
    const { choices, fates } = this.context;
    const fate = choices.ask(
      `${nameOf(command)} to ${this.server.name}`,
      fatesOf(command, fates.command),
    );
    if (fate?.isCut === true) {
      connection.linger = fate.linger;
      this.scheduler.at(sentAt + 0.05, () => this.reset());
    }
    this.#slowedBy(fate?.delay ?? 0, () => super.send(connection, command, sentAt));
  }

  protected override sendBack(connection: Connection, reply: Reply, command: Command): void {
    const { choices, fates } = this.context;
    const about = `${reply.vote} to ${nameOf(command)} from ${this.server.name}`;
    const fate = choices.ask(about, fatesOf(command, fates.reply));
    this.#slowedBy(fate?.delay ?? 0, () => super.sendBack(connection, reply, command));
  }

  protected override wakeDelays(): number[] {
    const { choices, fates } = this.context;
    const fate = choices.ask(`a wake-up from ${this.server.name}`, fates.wake);
    const delay = this.delay();
    return (fate?.delays ?? [0]).map((extra) => delay + extra);
  }

  #slowedBy(delay: number, send: () => void): void {
    this.extraDelay += delay;
    send();
    this.extraDelay -= delay;
  }
}

/** May come to harm before or after each command. */
class ChosenServer extends SimulatedServer {
  constructor(
    private readonly context: PlayContext,
    ...given: ConstructorParameters<typeof SimulatedServer>
  ) {
    super(...given);
  }

  override receive(delivery: Delivery): void {
    const { choices, fates } = this.context;
    const { command } = delivery;
    const about = `${this.name}, where ${nameOf(command)} arrives,`;
    const fate = this.isUp ? choices.ask(about, fatesOf(command, fates.server)) : null;
    if (fate === null) {
      super.receive(delivery);
    } else if (fate.isAfter) {
      const isAnswered = fate.fault.kind !== 'crash';
      super.receive(isAnswered ? delivery : { ...delivery, answer: () => undefined });
      this.context.befall(this.name, fate.fault);
    } else {
      this.context.befall(this.name, fate.fault);
      super.receive(delivery);
    }
  }
}

/** Connections are made as usual. */
function fatesOf<Kind>({ kind }: Command, fates: readonly Kind[]): readonly Kind[] {
  return kind === 'certify' ? [] : fates;
}

function nameOf(command: Command): string {
  return 'request' in command ? `${command.kind} ${command.request.ownerId}` : command.kind;
}
