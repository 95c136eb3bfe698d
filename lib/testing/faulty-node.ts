// A node behind a network and a server that fail as a test says. The node inside is real, so a test
// sees what the library really makes of a fault.
import type { Environment } from '../core/environment.js';
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
import { checkText } from '../core/option-checks.js';
import type { Milliseconds } from '../core/units.js';
import { failures } from './failures.js';
import { resolveFaultyNode, type FaultyNodeOptions } from './faulty-node-options.js';
import {
  checkFault,
  checkLatency,
  checkOperation,
  type Latency,
  type NodeFault,
  type NodeOperation,
} from './node-faults.js';
import { OneWay } from './one-way.js';
import { plainRequest } from './plain-client.js';

/** What the node was asked, and when, by its {@link Environment.now}. */
export interface RecordedCall {
  readonly operation: NodeOperation;
  readonly at: Milliseconds;
  /** Null for an inspection. */
  readonly request: OwnerRequest | ReleaseRequest | null;
}

type Answer = AcquireAnswer | ExtendAnswer | ReleaseAnswer | InspectAnswer;

/**
 * A node that fails on command, so that a test sees what the application makes of a lock that is
 * taken, late or lost. Without a fault it behaves as the node inside. Faults apply to what is asked
 * from then on, latency to what is sent. Requests and answers stay in order, as on one connection.
 * @example
 * ```ts
 * const node = new FaultyNode();
 * const imports = [RedlockModule.forRoot([node]), InventoryModule];
 * node.occupy('sku:1'); // others hold it
 * ```
 */
export class FaultyNode implements LockNode {
  readonly name: string;
  /** What the node was asked, in order; lost and refused requests too. */
  readonly calls: RecordedCall[] = [];
  readonly #node: LockNode;
  readonly #environment: Environment;
  readonly #requests: OneWay;
  readonly #answers: OneWay;
  readonly #faults = new Map<NodeOperation, NodeFault>();
  /** What {@link lose} deletes: what may be stored, by owner (and key, for {@link occupy}). */
  readonly #stored = new Map<string, OwnerRequest>();
  #latency: Latency = {};
  #hanging: (() => void)[] | null = null;
  readonly #undelivered: (() => void)[] = [];

  /**
   * Makes a node without faults.
   * @throws TypeError for an unknown option or a bad one, or a node in place of the options.
   */
  constructor(options: FaultyNodeOptions = {}) {
    const { name, node, environment } = resolveFaultyNode(options);
    this.name = name;
    this.#node = node;
    this.#environment = environment;
    this.#requests = new OneWay(environment);
    this.#answers = new OneWay(environment);
  }

  acquire(request: OwnerRequest, onAnswer: (answer: AcquireAnswer) => void): void {
    const fault = this.#record('acquire', request);
    const serve = (onServed: typeof onAnswer): void => {
      this.#stored.set(request.ownerId, request);
      this.#node.acquire(request, onServed);
    };
    this.#pass(fault, serve, (answer) => onAnswer(answerUnder(fault, answer)));
  }

  extend(request: OwnerRequest, onAnswer: (answer: ExtendAnswer) => void): void {
    const fault = this.#record('extend', request);
    const serve = (onServed: typeof onAnswer): void => this.#node.extend(request, onServed);
    this.#pass(fault, serve, (answer) => onAnswer(answerUnder(fault, answer)));
  }

  release(request: ReleaseRequest, onAnswer: (answer: ReleaseAnswer) => void): void {
    const fault = this.#record('release', request);
    const serve = (onServed: typeof onAnswer): void => {
      this.#stored.delete(request.ownerId);
      this.#node.release(request, onServed);
    };
    if (fault === 'down') this.#undelivered.push(() => serve(ignore));
    this.#pass<ReleaseAnswer>(fault, serve, onAnswer);
  }

  inspect(world: World, resource: string, onAnswer: (answer: InspectAnswer) => void): void {
    const fault = this.#record('inspect', null);
    const serve = (onServed: typeof onAnswer): void =>
      this.#node.inspect(world, resource, onServed);
    this.#pass<InspectAnswer>(fault, serve, onAnswer);
  }

  listen(world: World, resource: string, listener: WakeListener): () => void {
    return this.#node.listen(world, resource, {
      onLive: (isLive) => this.#answer(() => listener.onLive(isLive)),
      onWake: (told) => this.#answer(() => listener.onWake(told)),
    });
  }

  status(): NodeStatus {
    const status = { ...this.#node.status(), name: this.name };
    if (this.#hanging !== null) return { ...status, state: 'suspended' };
    switch (this.#faults.get('acquire')) {
      case 'down':
        return { ...status, state: 'down' };
      case 'misconfigured':
        return { ...status, state: 'refused', findings: [failures.misconfigured.message] };
      case 'quarantined':
        return { ...status, quarantineRemaining: QUARANTINE };
      default:
        return status;
    }
  }

  /**
   * From now on requests and answers take this long; a number is the answer's delay, in ms.
   * @throws TypeError for another direction, and TypeError, RangeError for what is no delay.
   */
  delay(latency: Milliseconds | Latency): void {
    this.#latency = checkLatency(latency);
  }

  /**
   * From now on the node refuses the operations (by default all) at once, as if it were down.
   * @throws TypeError for a misspelt one.
   */
  refuse(...operations: readonly NodeOperation[]): void {
    this.fail('down', ...operations);
  }

  /**
   * From now on the operations (by default all) go wrong by `fault`.
   * @throws TypeError for a misspelt one.
   */
  fail(fault: NodeFault, ...operations: readonly NodeOperation[]): void {
    for (const operation of checkFault(fault, operations)) this.#faults.set(operation, fault);
  }

  /** From now on requests arrive but wait, as at a frozen server, until {@link heal}. */
  hang(): void {
    this.#hanging ??= [];
  }

  /**
   * Ends faults, delay and hanging: what waits is served in order, and what is on the way arrives
   * at once. What was lost stays lost.
   */
  heal(): void {
    const waiting = this.#hanging ?? [];
    this.#faults.clear();
    this.#latency = {};
    this.#hanging = null;
    // What has come farthest was asked first: answers, then waiting requests, then the rest.
    this.#answers.hasten();
    for (const serve of waiting) serve();
    this.#requests.hasten();
    for (const serve of this.#undelivered.splice(0)) serve();
  }

  /**
   * Loses all keys that were taken through this node, by {@link occupy} too, like a server that
   * restarts without its data. A holder learns of it at its next extension: with the watchdog,
   * after a third of the ttl at the latest.
   */
  lose(): void {
    for (const request of this.#stored.values()) this.#delete(request, request.resources);
  }

  /**
   * Ends the ttl of `resource` on this node, whatever was left of it. If it was taken by
   * {@link occupy}, name it by its key.
   * @throws TypeError for what is no name.
   */
  expireNow(resource: string): void {
    checkText('resource', resource);
    for (const request of this.#stored.values()) {
      if (request.resources.includes(resource)) this.#delete(request, [resource]);
    }
  }

  /**
   * Lets another client take `key` on this node for `ttl` ms (from 1, by default 10_000), past all
   * faults. Does nothing if the key is held. The key is the resource's name, after the `keyPrefix`.
   * @throws TypeError, RangeError for a bad key, ttl or owner.
   */
  occupy(key: string, ttl: Milliseconds = 10_000, ownerId = stranger): void {
    const request = plainRequest(key, ttl, ownerId);
    this.#stored.set(`${ownerId} ${key}`, request);
    this.#node.acquire(request, ignore);
  }

  /** Lets the other client of {@link occupy} release `key`. @throws TypeError as that does. */
  vacate(key: string, ownerId = stranger): void {
    this.#node.release({ ...plainRequest(key, 100, ownerId), wakes: true }, ignore);
  }

  /** Counts how often an operation was asked for. @throws TypeError for a misspelt one. */
  count(operation: NodeOperation): number {
    checkOperation(operation);
    return this.calls.filter((call) => call.operation === operation).length;
  }

  #record(operation: NodeOperation, request: RecordedCall['request']): NodeFault | null {
    this.calls.push({ operation, at: this.#environment.now(), request });
    return this.#faults.get(operation) ?? null;
  }

  // By a release of the owner, which every kind of node understands.
  #delete(request: OwnerRequest, resources: readonly string[]): void {
    this.#node.release({ ...request, resources, wakes: false }, ignore);
  }

  #pass<Given extends Answer>(
    fault: NodeFault | null,
    serve: (onAnswer: (answer: Given) => void) => void,
    onAnswer: (answer: Given | FailedAnswer) => void,
  ): void {
    switch (fault) {
      case 'down':
        // A connection that is not ready answers at once; a refusing server takes its time.
        void Promise.resolve(failures.down).then(onAnswer);
        return;
      case 'misconfigured':
        this.#send(() => this.#answer(() => onAnswer(failures.misconfigured)));
        return;
      case 'requestLost':
        return;
      case 'answerLost':
        this.#send(() => serve(ignore));
        return;
    }
    this.#send(() => {
      serve((answer) => {
        this.#answer(() => onAnswer(fault === 'answerOdd' ? failures.answerOdd : answer));
        if (fault === 'answerDoubled') this.#answer(() => onAnswer(answer));
      });
    });
  }

  #send(arrive: () => void): void {
    this.#requests.send(this.#latency.request ?? 0, () => {
      if (this.#hanging === null) arrive();
      else this.#hanging.push(arrive);
    });
  }

  // In a microtask: no answer comes before the operation, or `heal`, has returned.
  #answer(arrive: () => void): void {
    this.#answers.send(this.#latency.answer ?? 0, () => void Promise.resolve().then(arrive));
  }
}

/** Where the fault is a quarantine, what is granted does not count. */
function answerUnder<Given extends AcquireAnswer | ExtendAnswer>(
  fault: NodeFault | null,
  answer: Given,
) {
  const isWithheld = fault === 'quarantined' && answer.vote === 'granted';
  return isWithheld ? ({ vote: 'quarantined', remaining: QUARANTINE } as const) : answer;
}

const stranger = 'another client';

/** The time that a quarantined vote says remains, each time until the node is healed. */
const QUARANTINE: Milliseconds = 1_000;

// Nobody waits for it.
function ignore(): void {}
