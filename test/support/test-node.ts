// A real memory node behind a network and a server that fail as a test says.
import { MemoryNode } from '../../lib/nodes/memory-node.js';
import type {
  AcquireAnswer,
  ExtendAnswer,
  FailedAnswer,
  InspectAnswer,
  LockNode,
  NodeStatus,
  OwnerRequest,
  ReleaseAnswer,
  World,
} from '../../lib/core/lock-node.js';
import type { Milliseconds } from '../../lib/core/units.js';
import type { SimulatedEnvironment } from './simulated-environment.js';

export type Operation = 'acquire' | 'extend' | 'release' | 'inspect';

/** What goes wrong, for the operations that {@link FaultyNode.fail} names. */
export interface Fault {
  /**
   * - `down`: nothing is sent, and the node says so at once.
   * - `requestLost`: never arrives, no answer. `answerLost`: takes effect, no answer.
   * - `answerOdd`: takes effect, but nobody knows: `failed` with `mayHold`.
   * - `refused`: a misconfiguration, does not take effect.
   * - `answerDoubled`: the answer comes twice. `quarantined`: grants do not count.
   */
  readonly kind:
    | 'down'
    | 'requestLost'
    | 'answerLost'
    | 'answerOdd'
    | 'refused'
    | 'answerDoubled'
    | 'quarantined';
  readonly message?: string;
}

export interface RecordedCall {
  readonly operation: Operation;
  readonly at: Milliseconds;
  readonly request: OwnerRequest | null;
}

/** How long the way to the node and back takes, in ms. */
export interface Latency {
  readonly request?: Milliseconds;
  readonly answer?: Milliseconds;
}

type Answer = AcquireAnswer | ExtendAnswer | ReleaseAnswer | InspectAnswer;

/** Wraps a {@link MemoryNode}. Requests and answers keep their order, as on one connection. */
export class FaultyNode implements LockNode {
  readonly name: string;
  readonly calls: RecordedCall[] = [];
  latency: Latency = {};
  /** Called when a request has taken effect, before its answer is on its way. */
  onServed: (operation: Operation) => void = () => undefined;
  readonly #environment: SimulatedEnvironment;
  readonly #clockOffset: Milliseconds;
  readonly #faults = new Map<Operation, Fault>();
  #node: MemoryNode;
  #requestsBusyUntil: Milliseconds = -Infinity;
  #answersBusyUntil: Milliseconds = -Infinity;
  #frozen: (() => void)[] | null = null;

  constructor(environment: SimulatedEnvironment, name = 'node', clockOffset: Milliseconds = 0) {
    this.#environment = environment;
    this.#clockOffset = clockOffset;
    this.name = name;
    this.#node = this.#emptyNode();
  }

  acquire(request: OwnerRequest, onAnswer: (answer: AcquireAnswer) => void): void {
    const fault = this.#record('acquire', request);
    const quarantined = { vote: 'quarantined', remaining: 1_000 } as const;
    this.#pass<AcquireAnswer>(
      fault,
      'acquire',
      (node, answer) => node.acquire(request, answer),
      (answer) => {
        const isGrant = answer.vote === 'granted' && fault?.kind === 'quarantined';
        onAnswer(isGrant ? quarantined : answer);
      },
    );
  }

  extend(request: OwnerRequest, onAnswer: (answer: ExtendAnswer) => void): void {
    const fault = this.#record('extend', request);
    this.#pass<ExtendAnswer>(
      fault,
      'extend',
      (node, answer) => node.extend(request, answer),
      (answer) => {
        const isGrant = answer.vote === 'granted' && fault?.kind === 'quarantined';
        onAnswer(isGrant ? { vote: 'quarantined' } : answer);
      },
    );
  }

  release(request: OwnerRequest, onAnswer: (answer: ReleaseAnswer) => void): void {
    const fault = this.#record('release', request);
    this.#pass<ReleaseAnswer>(
      fault,
      'release',
      (node, answer) => node.release(request, answer),
      onAnswer,
    );
  }

  inspect(world: World, resource: string, onAnswer: (answer: InspectAnswer) => void): void {
    const fault = this.#record('inspect', null);
    this.#pass<InspectAnswer>(
      fault,
      'inspect',
      (node, answer) => node.inspect(world, resource, answer),
      onAnswer,
    );
  }

  status(): NodeStatus {
    return { ...this.#node.status(), name: this.name };
  }

  /** From now on the operations (by default all) fail like this. */
  fail(kind: Fault['kind'], ...operations: Operation[]): void {
    const affected = operations.length > 0 ? operations : allOperations;
    for (const operation of affected) this.#faults.set(operation, { kind });
  }

  /** Ends all faults; what was lost stays lost. */
  heal(): void {
    this.#faults.clear();
  }

  /** SIGSTOP: requests arrive and wait. */
  freeze(): void {
    this.#frozen ??= [];
  }

  /** SIGCONT: what has waited is served in order. */
  thaw(): void {
    const waiting = this.#frozen ?? [];
    this.#frozen = null;
    for (const serve of waiting) serve();
  }

  /** A restart without persistence, or FLUSHALL. */
  loseKeys(): void {
    this.#node = this.#emptyNode();
  }

  /** How often an operation was asked for. */
  count(operation: Operation): number {
    return this.calls.filter((call) => call.operation === operation).length;
  }

  /** Who holds `resource` here now, past all faults; null where nobody does. */
  async ownerOf(resource: string): Promise<string | null> {
    return (await this.#look(resource)).ownerId;
  }

  /** How long the key of `resource` lives here, past all faults, in ms. */
  async keyLifetime(resource: string): Promise<Milliseconds> {
    return (await this.#look(resource)).remaining;
  }

  /** Another client's lock on this node alone, past all faults. */
  occupy(resource: string, ttl: Milliseconds, ownerId = 'someone else'): void {
    this.#node.acquire(
      { world: plainWorld, resources: [resource], ownerId, token: 0, ttl },
      () => undefined,
    );
  }

  /** Deletes what {@link occupy} stored. */
  vacate(resource: string, ownerId = 'someone else'): void {
    const request = { world: plainWorld, resources: [resource], ownerId, token: 0, ttl: 100 };
    this.#node.release(request, () => undefined);
  }

  /** Makes the node know a fencing token for `resource`, past all faults. */
  recordToken(world: World, resource: string, token: number): void {
    const request = { world, resources: [resource], ownerId: 'an earlier owner', token, ttl: 100 };
    this.#node.acquire(request, () => undefined);
    this.#node.release(request, () => undefined);
  }

  #emptyNode(): MemoryNode {
    const environment = this.#environment;
    const clockOffset = this.#clockOffset;
    const skewed = Object.create(environment, {
      wallClock: { value: () => environment.wallClock() + clockOffset },
      now: { value: () => environment.now() },
    }) as SimulatedEnvironment;
    return new MemoryNode({ name: this.name, environment: skewed });
  }

  #look(resource: string): Promise<{ ownerId: string | null; remaining: Milliseconds }> {
    return new Promise((resolve, reject) => {
      this.#node.inspect(plainWorld, resource, (answer) => {
        if (answer.vote === 'found') resolve(answer);
        else reject(new Error(answer.message));
      });
    });
  }

  #record(operation: Operation, request: OwnerRequest | null): Fault | null {
    this.calls.push({ operation, at: this.#environment.now(), request });
    return this.#faults.get(operation) ?? null;
  }

  #pass<Given extends Answer>(
    fault: Fault | null,
    operation: Operation,
    serve: (node: MemoryNode, onAnswer: (answer: Given) => void) => void,
    onAnswer: (answer: Given | FailedAnswer) => void,
  ): void {
    const failure = fault && failures[fault.kind];
    if (failure?.mayHold === false) {
      // A connection that is not ready answers at once; a refusing server takes its time.
      if (fault?.kind === 'down') queueMicrotask(() => onAnswer(failure));
      else this.#send(() => this.#answer(() => onAnswer(failure)));
      return;
    }
    if (fault?.kind === 'requestLost') return;
    this.#send(() => {
      serve(this.#node, (answer) => {
        this.onServed(operation);
        if (fault?.kind === 'answerLost') return;
        this.#answer(() => onAnswer(failure ?? answer));
        if (fault?.kind === 'answerDoubled') this.#answer(() => onAnswer(answer));
      });
    });
  }

  #send(arrive: () => void): void {
    const now = this.#environment.now();
    const arrival = Math.max(this.#requestsBusyUntil, now + (this.latency.request ?? 0));
    this.#requestsBusyUntil = arrival;
    const serve = (): void => {
      if (this.#frozen === null) arrive();
      else this.#frozen.push(arrive);
    };
    if (arrival <= now) serve();
    else this.#environment.schedule(arrival - now, serve);
  }

  #answer(arrive: () => void): void {
    const now = this.#environment.now();
    const arrival = Math.max(this.#answersBusyUntil, now + (this.latency.answer ?? 0));
    this.#answersBusyUntil = arrival;
    if (arrival <= now) queueMicrotask(arrive);
    else this.#environment.schedule(arrival - now, arrive);
  }
}

const allOperations: readonly Operation[] = ['acquire', 'extend', 'release', 'inspect'];

const plainWorld: World = {
  keyPrefix: '',
  fencing: false,
  clockSkewMax: 2_000,
  fenceRetention: 10_000,
  quarantine: 0,
};

const failures: Partial<Record<Fault['kind'], FailedAnswer>> = {
  down: {
    vote: 'failed',
    mayHold: false,
    isMisconfiguration: false,
    message: 'the connection is not ready',
  },
  answerOdd: {
    vote: 'failed',
    mayHold: true,
    isMisconfiguration: false,
    message: 'the connection was lost after the request was sent',
  },
  refused: {
    vote: 'failed',
    mayHold: false,
    isMisconfiguration: true,
    message: 'WRONGPASS invalid username-password pair or user is disabled.',
  },
};
