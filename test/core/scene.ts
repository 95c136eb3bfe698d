// The stage of the core's tests: some faulty nodes, virtual time, and what they told.
import { jest } from '@jest/globals';

import { LockLostError } from '../../lib/core/errors.js';
import { silentObserver } from '../../lib/core/observer.js';
import { resolveOptions } from '../../lib/core/options.js';
import { majorityOf } from '../../lib/core/quorum.js';
import { Redlock } from '../../lib/core/redlock.js';
import { RoundTimers } from '../../lib/core/round-timers.js';
import { Watchdog } from '../../lib/core/watchdog.js';
import { FaultyNode } from '../../lib/testing/faulty-node.js';
import { networkOf, TestNode } from '../support/test-node.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import type { Environment } from '../../lib/core/environment.js';
import type { Ensemble } from '../../lib/core/ensemble.js';
import type { LockNode } from '../../lib/core/lock-node.js';
import type { RedlockObserver } from '../../lib/core/observer.js';
import type { RedlockOptions } from '../../lib/core/options.js';
import type { Milliseconds } from '../../lib/core/units.js';

export interface SceneOptions {
  readonly nodes?: number;
  readonly options?: RedlockOptions;
  readonly seed?: number;
  /** Each node's clock minus the true time. */
  readonly clockOffsets?: readonly Milliseconds[];
}

export interface Scene {
  readonly environment: SimulatedEnvironment;
  readonly nodes: readonly TestNode[];
  readonly redlock: Redlock;
  readonly observer: jest.Mocked<RedlockObserver>;
  /** The node with this index. */
  node(index: number): TestNode;
  /** Another process with the same nodes. */
  otherProcess(options?: RedlockOptions): Redlock;
  /** Each node's owner of a resource. */
  owners(resource?: string): Promise<(string | null)[]>;
  /** Lets time pass until a promise has settled, and gives what came of it. */
  until<T>(promise: Promise<T>, limit?: Milliseconds): Promise<T>;
  /** The same for a promise that is expected to reject; gives the reason. */
  rejection(promise: Promise<unknown>, limit?: Milliseconds): Promise<unknown>;
}

/** Sets up a scene; by default three healthy nodes without latency. */
export function setScene(wishes: SceneOptions = {}): Scene {
  const environment = new SimulatedEnvironment({ seed: wishes.seed ?? 1 });
  const nodes = Array.from(
    { length: wishes.nodes ?? 3 },
    (_, index) => new TestNode(environment, `node-${index}`, wishes.clockOffsets?.[index] ?? 0),
  );
  const observer = recordingObserver();
  const node = (index: number): TestNode => {
    const found = nodes[index];
    if (found === undefined) throw new Error(`There is no node ${index}`);
    return found;
  };
  const until = async <T>(promise: Promise<T>, limit: Milliseconds = 120_000): Promise<T> => {
    const isSettled = watch(promise);
    const giveUpAt = environment.now() + limit;
    await environment.settle();
    while (!isSettled()) {
      if (environment.now() >= giveUpAt) throw new Error(`Not settled within ${limit} ms`);
      await environment.advance(1);
    }
    return promise;
  };
  return {
    environment,
    nodes,
    observer,
    node,
    until,
    redlock: new Redlock(nodes, wishes.options, { environment, observer }),
    otherProcess: (options = wishes.options) => new Redlock(nodes, options, { environment }),
    owners: (resource = 'r') => Promise.all(nodes.map((each) => each.ownerOf(resource))),
    rejection: (promise, limit) => until(reasonOf(promise), limit),
  };
}

/** Another process with the same nodes, and its own way to each, which takes so many ms. */
export function farProcess(
  { environment, nodes }: Pick<Scene, 'environment' | 'nodes'>,
  wayTo: (index: number) => Milliseconds,
): { readonly redlock: Redlock; readonly ways: readonly FaultyNode[] } {
  const ways = nodes.map((node, index) => {
    const way = new FaultyNode({ node, environment: networkOf(environment) });
    way.delay({ request: wayTo(index), answer: wayTo(index) });
    return way;
  });
  return { redlock: new Redlock(ways, {}, { environment }), ways };
}

/** What the parts of a `Redlock` over these nodes share, for a test of one part by itself. */
export function ensembleOf(environment: Environment, nodes: readonly LockNode[]): Ensemble {
  return {
    nodes,
    quorum: majorityOf(nodes.length),
    options: resolveOptions({}, nodes.length),
    environment,
    observer: silentObserver,
    roundTimers: new RoundTimers(environment),
    watchdog: new Watchdog(environment),
  };
}

function recordingObserver(): jest.Mocked<RedlockObserver> {
  return {
    acquired: jest.fn(),
    refused: jest.fn(),
    extended: jest.fn(),
    released: jest.fn(),
    lost: jest.fn(),
    roundDecided: jest.fn(),
    nodeChanged: jest.fn(),
  };
}

/** What a promise rejects with, for a test that lets time pass itself. */
export async function reasonOf(promise: Promise<unknown>): Promise<unknown> {
  const outcome = await promise.then(
    (value) => ({ value }),
    (reason: unknown) => ({ reason }),
  );
  if ('reason' in outcome) return outcome.reason;
  throw new Error(`Expected a rejection, got ${String(outcome.value)}`);
}

/** Whether a promise has settled, without waiting for it. */
export function watch(promise: Promise<unknown>): () => boolean {
  let isSettled = false;
  const note = (): void => {
    isSettled = true;
  };
  promise.then(note, note);
  return () => isSettled;
}

/** What a call throws because its lock is lost. */
export function lossThrownBy(call: () => unknown): LockLostError {
  try {
    call();
  } catch (error) {
    return expectInstance(error, LockLostError);
  }
  throw new Error('Nothing was thrown');
}

/** How often all nodes were asked for something. */
export function asked({ nodes }: Pick<Scene, 'nodes'>, operation: 'acquire' | 'release'): number {
  return nodes.reduce((sum, node) => sum + node.count(operation), 0);
}

/** The ttls that extensions asked the node for, in their order. */
export function extendedTtls({ calls }: TestNode): (Milliseconds | undefined)[] {
  const extensions = calls.filter(({ operation }) => operation === 'extend');
  return extensions.map(({ request }) => request?.ttl);
}

/** A body whose end the test decides. */
export function deferred<T = undefined>(): {
  readonly promise: Promise<T | undefined>;
  readonly resolve: (value?: T) => void;
} {
  let resolve: (value?: T) => void = () => undefined;
  const promise = new Promise<T | undefined>((onResolve) => {
    resolve = onResolve;
  });
  return { promise, resolve };
}

/** What an awaited thing threw, typed. */
export function expectInstance<T>(value: unknown, type: abstract new (...args: never[]) => T): T {
  if (value instanceof type) return value;
  throw new Error(`Expected a ${type.name}, got ${String(value)}`);
}
