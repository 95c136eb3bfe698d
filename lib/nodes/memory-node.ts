// A node in this process: the same rules as the scripts of redis-scripts.ts, in TypeScript.
//
// It has no birth certificate and is never quarantined. Quarantine is for a node that forgets
// locks while their holders live on; this one's data lives and dies with its users.
import { lowestTokenOf } from '../core/fencing.js';
import {
  afterMicrotasks,
  checkEnvironment,
  inMicrotask,
  systemEnvironment,
  type Environment,
} from '../core/environment.js';
import { checkNames, checkObject, checkText } from '../core/option-checks.js';
import { mostOf, NOBODY, OVERDUE } from '../core/lock-node.js';
import type {
  AcquireAnswer,
  ExtendAnswer,
  InspectAnswer,
  LockNode,
  NodeStatus,
  OwnerRequest,
  ReleaseAnswer,
  ReleaseRequest,
  Told,
  WakeListener,
  World,
} from '../core/lock-node.js';
import type { Microseconds } from '../core/units.js';
import { ExpiringMap } from './expiring-map.js';

/** A listener, and the world that tells its service from others. */
interface Subscription {
  readonly world: World;
  readonly listener: WakeListener;
}

/** The options of a {@link MemoryNode}. */
export interface MemoryNodeOptions {
  /** Names the node in errors and logs. @default 'memory' */
  readonly name?: string | undefined;
  /** Where it gets time from. @default the process's clocks */
  readonly environment?: Environment | undefined;
}

/**
 * An independent node that keeps its keys in this process's memory, for tests and for
 * applications with one process. Any number of services may share it; nothing is shared with
 * other processes. Expired keys are swept by later operations, without timers.
 */
export class MemoryNode implements LockNode {
  readonly name: string;
  readonly #environment: Environment;
  readonly #startedAt: Microseconds;
  readonly #owners = new ExpiringMap<string>();
  readonly #fences = new ExpiringMap<Microseconds>();
  readonly #subscriptions = new Map<string, Set<Subscription>>();

  /**
   * Makes an empty node, which starts no timer and need not be closed.
   * @throws TypeError for an unknown option, or a bad one.
   */
  constructor(options: MemoryNodeOptions = {}) {
    checkObject('options', options);
    checkNames('only options of MemoryNodeOptions', options, OPTIONS);
    const { name = 'memory', environment = systemEnvironment } = options;
    this.name = checkText('name', name);
    this.#environment = checkEnvironment(environment);
    // Wall clock once, monotonic from then on: this node's time never steps.
    this.#startedAt = (this.#environment.wallClock() - this.#environment.now()) * 1_000;
  }

  acquire(request: OwnerRequest, onAnswer: (answer: AcquireAnswer) => void): void {
    const answer = this.#acquire(request);
    answerLater(() => onAnswer(answer));
  }

  extend(request: OwnerRequest, onAnswer: (answer: ExtendAnswer) => void): void {
    const answer = this.#extend(request);
    answerLater(() => onAnswer(answer));
  }

  release(request: ReleaseRequest, onAnswer: (answer: ReleaseAnswer) => void): void {
    const hasDeleted = this.#release(request);
    answerLater(() => {
      const told = hasDeleted && request.wakes ? this.#wake(request) : NOBODY;
      onAnswer({ vote: 'done', ...told });
    });
  }

  inspect(world: World, resource: string, onAnswer: (answer: InspectAnswer) => void): void {
    const now = this.#now();
    const key = world.keyPrefix + resource;
    const ownerId = this.#owners.get(key, now) ?? null;
    const remaining = this.#owners.remaining(key, now) / 1_000;
    answerLater(() => onAnswer({ vote: 'found', ownerId, remaining, refusal: '' }));
  }

  listen(world: World, resource: string, listener: WakeListener): () => void {
    const key = world.keyPrefix + resource;
    const subscription = { world, listener };
    const ofKey = this.#subscriptions.get(key) ?? new Set();
    this.#subscriptions.set(key, ofKey.add(subscription));
    inMicrotask(() => {
      if (ofKey.has(subscription)) listener.onLive(true);
    });
    return () => {
      ofKey.delete(subscription);
      // A second call must leave alone the listeners that have come since.
      const isCurrent = this.#subscriptions.get(key) === ofKey;
      if (isCurrent && ofKey.size === 0) this.#subscriptions.delete(key);
    };
  }

  status(): NodeStatus {
    return {
      name: this.name,
      state: 'up',
      quarantineRemaining: 0,
      clockOffset: this.#now() / 1_000 - this.#environment.wallClock(),
      findings: [],
    };
  }

  #acquire({ world, resources, ownerId, token, ttl }: OwnerRequest): AcquireAnswer {
    const now = this.#now();
    const keys = keysOf(world, resources);
    const owners = keys.map((key) => this.#owners.get(key, now));
    const nth = owners.findIndex((owner) => owner !== undefined && owner !== ownerId);
    const taken = keys[nth];
    if (taken !== undefined) {
      const remaining = Math.ceil(this.#owners.remaining(taken, now) / 1_000);
      return { vote: 'taken', remaining, nth, ownerId: owners[nth] ?? '' };
    }
    if (owners.every((owner) => owner === ownerId)) return { vote: 'granted', nodeTime: now };
    if (world.fencing) {
      const low = this.#highestRefused(world, keys, now);
      const high = Math.max(now + world.clockSkewMax * 1_000, low + 2);
      if (lowestTokenOf(token) <= low) return { vote: 'stale', isAhead: false, low, nodeTime: now };
      if (token > high) return { vote: 'stale', isAhead: true, low, nodeTime: now };
      this.#record(world, keys, token, now);
    }
    for (const key of keys) this.#owners.set(key, ownerId, now + ttl * 1_000, now);
    return { vote: 'granted', nodeTime: now };
  }

  #extend({ world, resources, ownerId, token, ttl }: OwnerRequest): ExtendAnswer {
    const now = this.#now();
    const keys = keysOf(world, resources);
    const owners = keys.map((key) => this.#owners.get(key, now));
    const isAnothers = owners.some((owner) => owner !== undefined && owner !== ownerId);
    if (isAnothers) return { vote: 'revoked' };
    const missing = keys.filter((_, index) => owners[index] === undefined);
    for (const key of keys) {
      const remaining = this.#owners.remaining(key, now);
      if (remaining < ttl * 1_000) this.#owners.set(key, ownerId, now + ttl * 1_000, now);
    }
    if (world.fencing) {
      const lower = missing.filter((key) => (this.#fences.get(key, now) ?? 0) < token);
      this.#record(world, lower, token, now);
    }
    return { vote: missing.length === 0 ? 'granted' : 'revoked' };
  }

  // Returns whether it has deleted any of the keys.
  #release({ world, resources, ownerId, token }: OwnerRequest): boolean {
    const now = this.#now();
    const keys = keysOf(world, resources);
    const owned = keys.filter((key) => this.#owners.get(key, now) === ownerId);
    for (const key of owned) this.#owners.delete(key);
    const isAhead = token > now + world.clockSkewMax * 1_000;
    // A tombstone: an acquisition of this attempt that comes later is dead on arrival.
    if (world.fencing && !isAhead && token > this.#highestRefused(world, keys, now)) {
      this.#record(world, keys, token, now);
    }
    return owned.length > 0;
  }

  // Tells all who listen for what is free, and returns who was told of the key where most are
  // overdue. Each service has a world of its own, which tells it from others.
  #wake({ world, resources }: OwnerRequest): Told {
    const now = this.#now();
    const subscribedTo = (name: string): Subscription[] => [
      ...(this.#subscriptions.get(world.keyPrefix + name) ?? []),
    ];
    const othersOf = (name: string): number =>
      subscribedTo(name).filter((each) => each.world !== world).length;
    let most = NOBODY;
    for (const resource of resources) {
      if (this.#owners.get(world.keyPrefix + resource, now) !== undefined) continue;
      const told = { listeners: othersOf(resource), overdue: othersOf(OVERDUE + resource) };
      for (const { listener } of subscribedTo(resource)) inMicrotask(() => listener.onWake(told));
      most = mostOf(most, told);
    }
    return most;
  }

  #highestRefused(world: World, keys: readonly string[], now: Microseconds): Microseconds {
    let low = now - world.clockSkewMax * 1_000;
    for (const key of keys) low = Math.max(low, this.#fences.get(key, now) ?? 0);
    return low;
  }

  #record(world: World, keys: readonly string[], token: Microseconds, now: Microseconds): void {
    const expiresAt = now + world.fenceRetention * 1_000;
    for (const key of keys) this.#fences.set(key, token, expiresAt, now);
  }

  #now(): Microseconds {
    return Math.floor(this.#startedAt + this.#environment.now() * 1_000);
  }
}

// When all that the running code resumes has asked too: a server gets that as one call, and tells
// of its releases last.
function answerLater(answer: () => void): void {
  inMicrotask(() => afterMicrotasks(answer));
}

function keysOf({ keyPrefix }: World, resources: readonly string[]): string[] {
  return resources.map((resource) => keyPrefix + resource);
}

const OPTIONS: Readonly<Record<keyof MemoryNodeOptions, true>> = { name: true, environment: true };
