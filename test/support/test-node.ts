// The public FaultyNode over a memory node that tests of the core look into and restart.
import { FaultyNode } from '../../lib/testing/faulty-node.js';
import { plainWorld } from '../../lib/testing/plain-client.js';
import { MemoryNode } from '../../lib/nodes/memory-node.js';
import type { Environment } from '../../lib/core/environment.js';
import type { LockNode, Told, WakeListener, World } from '../../lib/core/lock-node.js';
import type { Milliseconds } from '../../lib/core/units.js';
import type { NodeOperation } from '../../lib/testing/node-faults.js';
import type { SimulatedEnvironment } from './simulated-environment.js';

/** A faulty node in virtual time. */
export class TestNode extends FaultyNode {
  readonly #server: Server;

  constructor(environment: SimulatedEnvironment, name = 'node', clockOffset: Milliseconds = 0) {
    const server = new Server(environment, name, clockOffset);
    super({ node: server, environment: networkOf(environment) });
    this.#server = server;
  }

  /** Called when a request has taken effect, before its answer is on its way. */
  set onServed(listener: (operation: NodeOperation) => void) {
    this.#server.onServed = listener;
  }

  /** Subscriptions are refused, or dead without a word: nothing published is heard. */
  set isDeaf(isDeaf: boolean) {
    this.#server.isDeaf = isDeaf;
  }

  /** How many listen here for `resource`. */
  listenersOf(resource: string): number {
    return this.#server.earsFor(resource).length;
  }

  /** Somebody publishes what was no release, or publishes a release once more. */
  forgeWakeUp(resource: string, told = toldTo(1)): void {
    for (const { listener } of this.#server.earsFor(resource)) listener.onWake(told);
  }

  /** A restart without persistence, or FLUSHALL: fencing tokens are forgotten too. */
  restart(): void {
    this.#server.restart();
  }

  /** Who holds `resource` here now, past all faults; null where nobody does. */
  async ownerOf(resource: string): Promise<string | null> {
    return (await this.#server.look(resource)).ownerId;
  }

  /** How long the key of `resource` lives here, past all faults, in ms. */
  async keyLifetime(resource: string): Promise<Milliseconds> {
    return (await this.#server.look(resource)).remaining;
  }

  /** Makes the node know a fencing token for `resource`, past all faults. */
  recordToken(world: World, resource: string, token: number): void {
    const request = { world, resources: [resource], ownerId: 'an-earlier-owner', token, ttl: 100 };
    this.#server.memory.acquire(request, () => undefined);
    this.#server.memory.release({ ...request, wakes: false }, () => undefined);
  }
}

/** So many others were told of a release. */
export function toldTo(listeners: number, overdue = 0): Told {
  return { listeners, overdue };
}

/** The way to a node takes exactly its time, and is no timer of the process. */
export function networkOf(environment: SimulatedEnvironment): Environment {
  return Object.create(environment, {
    now: { value: () => environment.now() },
    startTimer: {
      value: (delay: Milliseconds, callback: () => void) => environment.schedule(delay, callback),
    },
  }) as Environment;
}

interface Ear {
  readonly world: World;
  readonly resource: string;
  readonly listener: WakeListener;
  stop: () => void;
}

/** What is behind the network: a memory node with a clock of its own. */
class Server implements LockNode {
  readonly name: string;
  onServed: (operation: NodeOperation) => void = () => undefined;
  isDeaf = false;
  readonly #ears = new Map<string, Set<Ear>>();
  readonly #environment: Environment;
  readonly #clockOffset: Milliseconds;
  /** Past {@link onServed}. */
  memory: MemoryNode;

  constructor(environment: Environment, name: string, clockOffset: Milliseconds) {
    this.name = name;
    this.#clockOffset = clockOffset;
    this.#environment = Object.create(environment, {
      wallClock: { value: () => environment.wallClock() + clockOffset },
      now: { value: () => environment.now() },
    }) as Environment;
    this.memory = this.#empty();
  }

  acquire: LockNode['acquire'] = (request, onAnswer) => {
    this.memory.acquire(request, this.#served('acquire', onAnswer));
  };

  extend: LockNode['extend'] = (request, onAnswer) => {
    this.memory.extend(request, this.#served('extend', onAnswer));
  };

  release: LockNode['release'] = (request, onAnswer) => {
    this.memory.release(request, this.#served('release', onAnswer));
  };

  inspect: LockNode['inspect'] = (world, resource, onAnswer) => {
    this.memory.inspect(world, resource, this.#served('inspect', onAnswer));
  };

  // A memory node compares its time with the clock that it was given, which is this server's.
  status: LockNode['status'] = () => {
    const status = this.memory.status();
    return { ...status, clockOffset: (status.clockOffset ?? 0) + this.#clockOffset };
  };

  listen(world: World, resource: string, given: WakeListener): () => void {
    const listener = this.#unlessDeaf(given);
    const ear = { world, resource, listener, stop: () => undefined };
    const ears = this.#ears.get(resource) ?? new Set();
    this.#ears.set(resource, ears.add(ear));
    if (!this.isDeaf) this.#attach(ear);
    return () => {
      ears.delete(ear);
      ear.stop();
    };
  }

  earsFor(resource: string): Ear[] {
    return [...(this.#ears.get(resource) ?? [])];
  }

  restart(): void {
    this.memory = this.#empty();
    for (const ears of this.#ears.values()) for (const ear of ears) this.#attach(ear);
  }

  look(resource: string): Promise<{ ownerId: string | null; remaining: Milliseconds }> {
    return new Promise((resolve, reject) => {
      this.memory.inspect(plainWorld, resource, (answer) => {
        if (answer.vote === 'found') resolve(answer);
        else reject(new Error(answer.message));
      });
    });
  }

  #attach(ear: Ear): void {
    ear.stop();
    ear.stop = this.memory.listen(ear.world, ear.resource, ear.listener);
  }

  #unlessDeaf(listener: WakeListener): WakeListener {
    return {
      onLive: (isLive) => listener.onLive(isLive),
      onWake: (told) => {
        if (!this.isDeaf) listener.onWake(told);
      },
    };
  }

  #served<Answer>(
    operation: NodeOperation,
    onAnswer: (answer: Answer) => void,
  ): (answer: Answer) => void {
    return (answer) => {
      this.onServed(operation);
      onAnswer(answer);
    };
  }

  #empty(): MemoryNode {
    return new MemoryNode({ name: this.name, environment: this.#environment });
  }
}
