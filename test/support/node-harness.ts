// What the tests of lock nodes share: promises for answers, requests, and an observer to await.
import { systemEnvironment } from '../../lib/core/environment.js';
import { TOKENS_PER_BLOCK } from '../../lib/core/fencing.js';
import type {
  AcquireAnswer,
  ExtendAnswer,
  InspectAnswer,
  LockNode,
  NodeStatus,
  OwnerRequest,
  ReleaseAnswer,
  ReleaseRequest,
  World,
} from '../../lib/core/lock-node.js';
import { silentObserver, type RedlockObserver } from '../../lib/core/observer.js';
import { resolveOptions, type RedlockOptions } from '../../lib/core/options.js';
import type { Microseconds, Milliseconds } from '../../lib/core/units.js';
import { createNodes, type NodeInput, type NodeSet } from '../../lib/nodes/node-inputs.js';

export function acquire(node: LockNode, request: OwnerRequest): Promise<AcquireAnswer> {
  return new Promise((resolve) => node.acquire(request, resolve));
}

export function extend(node: LockNode, request: OwnerRequest): Promise<ExtendAnswer> {
  return new Promise((resolve) => node.extend(request, resolve));
}

/** A release that tells nobody, unless the request says otherwise. */
export function release(
  node: LockNode,
  request: OwnerRequest & Partial<ReleaseRequest>,
): Promise<ReleaseAnswer> {
  return new Promise((resolve) => node.release({ wakes: false, ...request }, resolve));
}

export function inspect(node: LockNode, world: World, resource: string): Promise<InspectAnswer> {
  return new Promise((resolve) => node.inspect(world, resource, resolve));
}

/** Somebody who listens for releases, and what it has heard. */
export interface TestEar {
  /** How many listeners each wake-up named. */
  readonly heard: readonly number[];
  /** Resolves with the first wake-up. */
  readonly woken: Promise<void>;
  readonly stop: () => void;
}

/** Listens for releases of `resource`; resolves when none goes unheard any more. */
export async function listen(node: LockNode, world: World, resource: string): Promise<TestEar> {
  const heard: number[] = [];
  let stop = (): void => undefined;
  let onWoken = (): void => undefined;
  const woken = new Promise<void>((resolve) => {
    onWoken = resolve;
  });
  await new Promise<void>((resolve) => {
    stop = node.listen(world, resource, {
      onLive: (isLive) => {
        if (isLive) resolve();
      },
      onWake: ({ listeners }) => {
        heard.push(listeners);
        onWoken();
      },
    });
  });
  return { heard, woken, stop };
}

export function worldOf(options: RedlockOptions = {}): World {
  return resolveOptions({ quarantine: false, ...options }, 1).world;
}

let ownerCount = 0;
let lastToken: Microseconds = 0;

/** Makes requests of one world, as those of one Redlock. */
export type RequestFor = (overrides?: Partial<OwnerRequest>) => OwnerRequest;

/** Has the keys of these resources expire now. */
export type Expire = (keys: readonly string[]) => Promise<void>;

/** A request of an owner of its own for `r`, with a token of now. */
export function requestFor(overrides: Partial<OwnerRequest> = {}): OwnerRequest {
  ownerCount += 1;
  return {
    world: worldOf(),
    resources: ['r'],
    ownerId: `owner-${ownerCount}`,
    token: overrides.token ?? nextToken(),
    ttl: 10_000,
    ...overrides,
  };
}

// Ahead of the clock where many come at once: of some 60,000 a second the nodes refuse them.
function nextToken(): Microseconds {
  lastToken = Math.max(tokenAt(Date.now(), 0), lastToken + TOKENS_PER_BLOCK);
  return lastToken;
}

/**
 * A token of `now`, in ms, and others for other counts: each the first of a block, so that those
 * beside it stand for themselves.
 */
export function tokenAt(now: Milliseconds, count: number): Microseconds {
  return (Math.floor((now * 1_000) / TOKENS_PER_BLOCK) + count) * TOKENS_PER_BLOCK;
}

export interface NodeEvent {
  readonly status: NodeStatus;
  readonly message: string;
  readonly isTrouble: boolean;
}

/** An observer that keeps what it is told of nodes. */
export class NodeLog {
  readonly events: NodeEvent[] = [];
  readonly observer: RedlockObserver = {
    ...silentObserver,
    nodeChanged: (status, message, isTrouble) => {
      this.events.push({ status, message, isTrouble });
      for (const check of [...this.#checks]) check();
    },
  };
  readonly #checks = new Set<() => void>();

  get messages(): string[] {
    return this.events.map(({ message }) => message);
  }

  /** Resolves with the first event, since `after` events, that matches. */
  async until(matches: (event: NodeEvent) => boolean, after = 0): Promise<NodeEvent> {
    return new Promise((resolve) => {
      const check = (): void => {
        const found = this.events.slice(after).find(matches);
        if (found === undefined) return;
        this.#checks.delete(check);
        resolve(found);
      };
      this.#checks.add(check);
      check();
    });
  }

  untilState(state: NodeStatus['state'], after = 0): Promise<NodeEvent> {
    return this.until(({ status }) => status.state === state, after);
  }
}

export interface TestNodes extends NodeSet {
  readonly log: NodeLog;
  /** The first node; most tests have one. */
  readonly node: LockNode;
}

/** Nodes over real servers, not awaited. Quarantine is off unless the options say otherwise. */
export function testNodes(
  inputs: readonly NodeInput[],
  options: RedlockOptions = {},
  environment = systemEnvironment,
): TestNodes {
  const log = new NodeLog();
  const resolved = resolveOptions({ quarantine: false, ...options }, inputs.length);
  const set = createNodes(inputs, resolved, { observer: log.observer, environment });
  const [node] = set.nodes;
  if (node === undefined) throw new Error('No node was made.');
  return { ...set, log, node };
}
