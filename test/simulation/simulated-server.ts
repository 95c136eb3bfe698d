// One Redis server: a data set, a wall clock, and what may happen to them.
import { OVERDUE } from '../../lib/core/lock-node.js';
import { OutOfMemory, ScriptModel, wakeChannel } from './script-model.js';
import type {
  AcquireAnswer,
  ExtendAnswer,
  FailedAnswer,
  InspectAnswer,
  OwnerRequest,
  ReleaseAnswer,
  ReleaseRequest,
  Told,
  World,
} from '../../lib/core/lock-node.js';
import type { Microseconds } from '../../lib/core/units.js';
import type { Scheduler } from './scheduler.js';
import type { ScriptMoment, StoredValue } from './script-model.js';
import type { SimulatedClock } from './simulated-clock.js';

/** What a client may ask a server about its lock. */
export type OwnerCommand =
  | { readonly kind: 'acquire' | 'extend'; readonly request: OwnerRequest }
  | {
      readonly kind: 'release';
      readonly request: ReleaseRequest;
      readonly isListening: boolean;
    };

/** What a client may ask a server. */
export type Command =
  | OwnerCommand
  | { readonly kind: 'inspect'; readonly world: World; readonly resource: string }
  | { readonly kind: 'certify'; readonly world: World };

/** What a server says. */
export type Reply = AcquireAnswer | ExtendAnswer | ReleaseAnswer | InspectAnswer | CertifyReply;

/** The answer to the certificate step. */
export interface CertifyReply {
  readonly vote: 'certified';
  readonly quarantineRemaining: number;
}

/** How a server refuses commands for a while. `odd`: it runs them, and answers nonsense. */
export type Refusal = 'oom' | 'readonly' | 'odd' | 'denied';

/** What survives of a server's data when it crashes. `replica`: another takes its place. */
export type Memory = 'kept' | 'lost' | 'snapshot' | 'replica';

/** A command that has arrived, and how its answer goes back. */
export interface Delivery {
  readonly command: Command;
  /** The connection was closed by its client meanwhile, or the command came a second time. */
  readonly isLate: boolean;
  answer(reply: Reply): void;
}

type Subscriber = (told: Told) => void;

/** How often its ttl a release waits for a connection. PROTOCOL.md section 4.7. */
const RELEASE_KEPT_FOR = 1.1;

/** One server, which does not know its clients. */
export class SimulatedServer {
  isUp = true;
  refusal: Refusal | null = null;
  /** Owners whose keys may be here although they were released: late commands brought them. */
  readonly ghosts = new Set<string>();
  readonly model: ScriptModel;
  #replid: string;
  #restarts = 0;
  /** When it last lost what it knew, on its own clock. */
  #forgotAt: Microseconds = -Infinity;
  #copy: ReadonlyMap<string, StoredValue> = new Map();
  readonly #subscribers = new Map<string, Set<Subscriber>>();
  #isHung = false;
  #backlog: Delivery[] = [];

  constructor(
    readonly name: string,
    readonly isPersistent: boolean,
    readonly clock: SimulatedClock,
    private readonly scheduler: Scheduler,
    data: ReadonlyMap<string, StoredValue>,
  ) {
    this.#replid = `${name}-0`;
    this.model = new ScriptModel(new Map(data));
  }

  /** What scripts find now. */
  moment(): ScriptMoment {
    return {
      now: Math.floor(this.clock.read(this.scheduler.now) * 1_000),
      replid: this.#replid,
      isPersistent: this.isPersistent,
      isFull: this.refusal === 'oom',
      tell: (world, resource, isListening) => {
        const subscribersOf = (name: string): Subscriber[] => [
          ...(this.#subscribers.get(wakeChannel(world, name)) ?? []),
        ];
        const subscribers = subscribersOf(resource);
        const listeners = Math.max(0, subscribers.length - Number(isListening));
        const overdue = listeners > 0 ? subscribersOf(OVERDUE + resource).length : 0;
        for (const onMessage of subscribers) onMessage({ listeners, overdue });
        return { listeners, overdue };
      },
    };
  }

  /** From now on tells `onMessage` what is published, with the number of those who are told. */
  subscribe(channel: string, onMessage: Subscriber): void {
    const subscribers = this.#subscribers.get(channel) ?? new Set();
    this.#subscribers.set(channel, subscribers.add(onMessage));
  }

  unsubscribe(channel: string, onMessage: Subscriber): void {
    this.#subscribers.get(channel)?.delete(onMessage);
  }

  receive(delivery: Delivery): void {
    if (!this.isUp) return;
    if (this.#isHung) this.#backlog.push(delivery);
    else this.#run(delivery);
  }

  hang(): void {
    this.#isHung = true;
  }

  /** Goes on, and first runs what has piled up. */
  resume(): void {
    this.#isHung = false;
    const backlog = this.#backlog;
    this.#backlog = [];
    for (const delivery of backlog) this.#run(delivery);
  }

  /** Takes the copy that a snapshot, or a replica that lags, will have. */
  saveCopy(): void {
    this.#copy = new Map(this.model.data);
  }

  crash(): void {
    this.isUp = false;
    this.#isHung = false;
    this.#backlog = [];
    this.#subscribers.clear();
  }

  restart(memory: Memory): void {
    this.isUp = true;
    this.#restarts += 1;
    this.#replid = `${this.name}-${this.#restarts}`;
    if (memory === 'kept') return;
    this.flush();
    if (memory === 'lost') return;
    for (const [key, stored] of this.#copy) {
      this.model.data.set(key, stored);
      if (typeof stored.value === 'string') this.ghosts.add(stored.value);
    }
  }

  flush(): void {
    this.#forgotAt = this.moment().now;
    this.model.data.clear();
  }

  #run(delivery: Delivery): void {
    const { command, isLate } = delivery;
    if (this.refusal === 'readonly' || this.refusal === 'denied') {
      // A refused release is not repeated on the same connection.
      if ('request' in command) this.ghosts.add(command.request.ownerId);
      delivery.answer(refused(this.refusal));
      return;
    }
    const reply = this.#execute(command);
    if ('request' in command) this.#suspectGhost(command, isLate);
    delivery.answer(this.refusal === 'odd' && command.kind !== 'certify' ? odd : reply);
  }

  // A late acquisition finds its tombstone, where there are any and one could be written: not
  // without memory, when what was refused is not even released, nor for a token too far ahead, nor
  // where it was lost since, nor where the release waited for a connection for longer than it is
  // kept. A late extension creates keys again.
  #suspectGhost(command: OwnerCommand, isLate: boolean): void {
    const { kind, request } = command;
    const { clockSkewMax, fencing } = request.world;
    const skew = clockSkewMax * 1_000;
    const { now } = this.moment();
    const isAhead = fencing && request.token > now + skew;
    const isOutlived = now - request.token > RELEASE_KEPT_FOR * request.ttl * 1_000;
    const isForgotten = !fencing || isOutlived || request.token <= this.#forgotAt + skew;
    const isRefused = kind !== 'extend' && this.refusal === 'oom';
    const isUnburied = isRefused || (kind === 'release' && isAhead);
    const isRevived = kind === 'extend' || (kind === 'acquire' && isForgotten);
    if (isUnburied || (isLate && isRevived)) this.ghosts.add(request.ownerId);
  }

  #execute(command: Command): Reply {
    const moment = this.moment();
    try {
      switch (command.kind) {
        case 'acquire':
          return this.model.acquire(command.request, moment);
        case 'extend':
          return this.model.extend(command.request, moment);
        case 'release':
          return this.model.release(command.request, command.isListening, moment);
        case 'inspect':
          return this.model.inspect(command.world, command.resource, moment);
        case 'certify': {
          const quarantineRemaining = this.model.certify(command.world, moment);
          return { vote: 'certified', quarantineRemaining };
        }
      }
    } catch (error) {
      if (error instanceof OutOfMemory) return refused('oom');
      throw error;
    }
  }
}

const odd: FailedAnswer = {
  vote: 'failed',
  mayHold: true,
  isMisconfiguration: false,
  message: 'ERR odd',
};

function refused(refusal: 'oom' | 'readonly' | 'denied'): FailedAnswer {
  const isMisconfiguration = refusal === 'denied';
  return { vote: 'failed', mayHold: false, isMisconfiguration, message: refusal.toUpperCase() };
}
