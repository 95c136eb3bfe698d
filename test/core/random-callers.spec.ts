// Calls and faults at random, in virtual time, and users who act from within whatever they are told,
// or from within nodes of their own: they abort, release, extend or ask for more. Whatever they do,
// no two of them hold a resource, tokens grow, nobody asks the nodes in a frenzy, every call ends, at
// once where it is given up, each lock is told of from its beginning to its one end, and in the end
// nothing is left of it.
import { expect, it } from '@jest/globals';

import { getEventListeners } from 'node:events';

import { Redlock } from '../../lib/core/redlock.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { setScene, type Scene } from './scene.js';
import type { Lock } from '../../lib/core/lock.js';
import type { LockNode } from '../../lib/core/lock-node.js';
import type { RedlockObserver } from '../../lib/core/observer.js';
import type { RedlockOptions } from '../../lib/core/options.js';
import type { NodeFault } from '../../lib/testing/faulty-node.js';
import type { TestNode } from '../support/test-node.js';

const PLAYS = 600;
const STEPS = 40;
const RESOURCES = ['a', 'b', 'c'];

/**
 * More than this often no node is asked in a step, of up to 30 ms, unless callers spin: fifteen may
 * be waiting, and a call tries four times at once where only its token was in the way.
 */
const FRENZY = 60;

const FAULTS: readonly NodeFault[] = [
  'down',
  'requestLost',
  'answerLost',
  'answerOdd',
  'answerDoubled',
  'quarantined',
];

/** A call that has neither got its lock nor failed. */
interface OpenCall {
  readonly controller: AbortController;
  abortedAt: number;
}

class Play {
  readonly findings: string[] = [];
  readonly #scene: Scene;
  readonly #dice: SimulatedEnvironment;
  readonly #processes: readonly Redlock[];
  readonly #locks = new Set<Lock>();
  readonly #open = new Set<OpenCall>();
  /** The highest token of each resource so far. */
  readonly #tokens = new Map<string, number>();
  readonly #calls = new Set<Promise<void>>();
  /** What was told of each lock. */
  readonly #told = new Map<Lock, string[]>();
  #doReact = true;

  constructor(readonly seed: number) {
    this.#dice = new SimulatedEnvironment({ seed });
    this.#scene = setScene({ seed, nodes: this.#oneOf([1, 2, 3, 4, 5]) });
    const { environment, nodes } = this.#scene;
    const options: RedlockOptions = {
      fencing: this.#isLikely(0.7),
      quarantine: false,
      ttlMax: 1_000,
      shutdownTimeout: 200,
      retryDelay: { min: 5, max: 20 },
    };
    const react = (): void => this.#react();
    const hear = (what: string) => (lock: Lock) => {
      this.#told.set(lock, [...(this.#told.get(lock) ?? []), what]);
      // Also what this tells of.
      if (what === 'released' && this.#doReact && this.#isLikely(0.2)) void lock.release();
      react();
    };
    const observer: RedlockObserver = {
      acquired: hear('acquired'),
      refused: react,
      extended: hear('extended'),
      released: hear('released'),
      lost: hear('lost'),
      roundDecided: react,
      nodeChanged: react,
    };
    const reacting = nodes.map((node) => this.#reacting(node));
    const ports = { environment, observer };
    this.#processes = [0, 1, 2].map(() => new Redlock(reacting, options, ports));
  }

  async run(): Promise<void> {
    const { environment, nodes } = this.#scene;
    for (let step = 0; step < STEPS; step += 1) {
      const node = this.#oneOf(nodes);
      const before = node.count('acquire');
      this.#act(node);
      await environment.advance(this.#dice.random() * 30);
      const asked = node.count('acquire') - before;
      if (asked > FRENZY) this.#find(`${asked} acquisitions of one node in step ${step}`);
      this.#compareHolders();
      await this.#findForgotten();
      // What was given up just now, from within the above.
      await environment.settle();
      this.#findSlow();
    }
    await this.#end();
  }

  #act(node: TestNode): void {
    const choice = this.#dice.random();
    if (choice < 0.55) this.#call();
    else if (choice < 0.62) node.hang();
    else if (choice < 0.72) node.heal();
    else if (choice < 0.8) node.delay({ request: this.#upTo(20), answer: this.#upTo(20) });
    else if (choice < 0.86) this.#fail(node);
    else if (choice < 0.9) this.#scene.environment.block(this.#upTo(120));
    else if (choice < 0.92) this.#scene.environment.stepWallClock(this.#upTo(4_000) - 2_000);
    else if (choice < 0.93) this.#scene.environment.suspend(this.#upTo(3_000));
    else if (choice < 0.96) node.isDeaf = this.#isLikely(0.5);
    else if (choice < 0.98) node.forgeWakeUp(this.#oneOf(RESOURCES), this.#upTo(4));
  }

  // A node of their own.
  #reacting(node: TestNode): LockNode {
    const reacted = (): TestNode => {
      this.#react();
      return node;
    };
    return {
      name: node.name,
      acquire: (request, onAnswer) => reacted().acquire(request, onAnswer),
      extend: (request, onAnswer) => reacted().extend(request, onAnswer),
      release: (request, onAnswer) => reacted().release(request, onAnswer),
      inspect: (world, resource, onAnswer) => node.inspect(world, resource, onAnswer),
      listen: (world, resource, listener) => reacted().listen(world, resource, listener),
      status: () => node.status(),
    };
  }

  #fail(node: TestNode): void {
    const fault = this.#oneOf(FAULTS);
    const operation = this.#oneOf(['acquire', 'extend', 'release', undefined] as const);
    if (operation === undefined) node.fail(fault);
    else node.fail(fault, operation);
  }

  #call(): void {
    const { environment } = this.#scene;
    const open = { controller: new AbortController(), abortedAt: Infinity };
    this.#open.add(open);
    const call = this.#useLock(open).catch(() => this.#settled(open));
    if (this.#isLikely(0.3)) environment.schedule(this.#upTo(150), () => this.#abort(open));
    // In the tick of the call.
    if (this.#isLikely(0.03)) this.#abort(open);
    this.#calls.add(call);
    void call.then(() => this.#calls.delete(call));
  }

  #abort(call: OpenCall | undefined): void {
    if (call === undefined) return;
    call.abortedAt = Math.min(call.abortedAt, this.#scene.environment.now());
    call.controller.abort();
  }

  #settled(call: OpenCall): void {
    this.#open.delete(call);
    const listeners = getEventListeners(call.controller.signal, 'abort').length;
    if (listeners > 0) this.#find(`${listeners} listeners of a signal left`);
  }

  async #useLock(open: OpenCall): Promise<void> {
    // What calls of one process want for the same time is handed over.
    const isAlike = this.#isLikely(0.5);
    const redlock = this.#oneOf(isAlike ? this.#processes.slice(0, 1) : this.#processes);
    const wanted = RESOURCES.filter((name) => (isAlike ? name === 'a' : this.#isLikely(0.5)));
    const resources = wanted.length > 0 ? wanted : RESOURCES;
    // Doubled and in another order.
    if (this.#isLikely(0.2)) wanted.push(...[...wanted].reverse());
    const wait = this.#oneOf([0, 30, 200, 1_000]);
    const ttl = isAlike ? 300 : 100 + this.#upTo(400);
    const duration = this.#upTo(this.#isLikely(0.2) ? 800 : isAlike ? 12 : 60);
    const { signal } = open.controller;
    const options = { wait, signal, watchdog: this.#isLikely(0.5), maxHold: 3_000 };
    const tokens = new Map(this.#tokens);
    if (this.#isLikely(isAlike ? 0.1 : 0.5)) {
      const lock = await redlock.acquire(resources, ttl, options);
      this.#got(lock, open, tokens);
      await this.#sleep(duration);
      if (this.#isLikely(0.9)) await lock.release();
    } else {
      const holdAtLeast = this.#isLikely(0.2) ? this.#upTo(300) : 0;
      await redlock.using(resources, { ...options, ttl, holdAtLeast }, (lock) => {
        this.#got(lock, open, tokens);
        return this.#sleep(duration);
      });
    }
  }

  #got(lock: Lock, open: OpenCall, earlier: ReadonlyMap<string, number>): void {
    const { fencingToken } = lock;
    this.#settled(open);
    this.#locks.add(lock);
    this.#compareHolders();
    for (const resource of lock.resources) {
      const isLower = fencingToken > 0 && fencingToken <= (earlier.get(resource) ?? 0);
      if (isLower) this.#find(`${fencingToken} for ${resource} is no higher token`);
      this.#tokens.set(resource, Math.max(fencingToken, this.#tokens.get(resource) ?? 0));
    }
    if (this.#isLikely(0.5)) lock.signal.addEventListener('abort', () => this.#react());
  }

  // Called from within the library. One act is enough: it would be told of that in turn.
  #react(): void {
    if (!this.#doReact || !this.#isLikely(0.15)) return;
    this.#doReact = false;
    const lock = this.#oneOf([...this.#locks, undefined]);
    const acts = [
      () => this.#abort(this.#oneOf([...this.#open, undefined])),
      () => void lock?.release(),
      () => void lock?.extend(100 + this.#upTo(300)).catch(() => undefined),
      () => this.#call(),
      () => {
        void lock?.extend(1_000).catch(() => undefined);
        void lock?.release();
        this.#call();
      },
      () => this.#scene.environment.block(this.#upTo(30)),
    ];
    this.#oneOf(acts)();
    this.#doReact = true;
  }

  async #end(): Promise<void> {
    const { environment, nodes } = this.#scene;
    this.#doReact = false;
    for (const node of nodes) {
      node.heal();
      node.isDeaf = false;
    }
    const isClosed = this.#isLikely(0.3);
    if (isClosed) void this.#oneOf(this.#processes).close();
    for (let moment = 0; moment < 60; moment += 1) {
      await environment.advance(100);
      this.#compareHolders();
    }
    if (this.#calls.size > 0) this.#find(`${this.#calls.size} calls never end`);
    for (const lock of this.#locks) void lock.release();
    await environment.advance(4_000);
    await this.#findRemains();
    // What a shutdown leaves to its ttl is not told of.
    if (!isClosed) this.#findUntold();
  }

  #findUntold(): void {
    for (const told of this.#told.values()) {
      if (!/^acquired,(extended,)*(released|lost)$/.test(told.join())) this.#find(told.join());
    }
  }

  async #findRemains(): Promise<void> {
    const { environment, nodes, owners } = this.#scene;
    for (const redlock of this.#processes) {
      const { held, waiting } = redlock.status();
      if (held + waiting > 0) this.#find(`${held} locks held, ${waiting} calls waiting`);
    }
    if (environment.pendingTimers > 0) this.#find(`${environment.pendingTimers} timers`);
    for (const resource of RESOURCES) {
      const left = (await owners(resource)).filter((owner) => owner !== null);
      const listeners = nodes.map((node) => node.listenersOf(resource));
      if (left.length > 0) this.#find(`keys of ${resource} left: ${left.join()}`);
      if (listeners.some((count) => count > 0)) this.#find(`${resource} is still listened for`);
    }
  }

  #compareHolders(): void {
    const holders = new Map<string, Lock>();
    for (const lock of this.#locks) {
      if (!lock.isValid) continue;
      for (const resource of lock.resources) {
        const other = holders.get(resource);
        if (other !== undefined) this.#find(`${resource}: ${other.ownerId} and ${lock.ownerId}`);
        holders.set(resource, lock);
      }
    }
  }

  // Nodes forget nothing here: what is valid is on a quorum of them.
  async #findForgotten(): Promise<void> {
    const { nodes, owners } = this.#scene;
    for (const resource of RESOURCES) {
      const known = await owners(resource);
      for (const { ownerId, isValid, resources } of this.#locks) {
        if (!isValid || !resources.includes(resource)) continue;
        const count = known.filter((owner) => owner === ownerId).length;
        if (count <= nodes.length / 2) this.#find(`${count} nodes know ${resource} of ${ownerId}`);
      }
    }
  }

  // Who gives a call up need not wait for nodes.
  #findSlow(): void {
    const now = this.#scene.environment.now();
    const isSlow = ({ abortedAt }: OpenCall): boolean => abortedAt < now;
    const slow = [...this.#open].filter(isSlow).length;
    if (slow > 0) this.#find(`${slow} calls go on although they were given up`);
  }

  #find(what: string): void {
    this.findings.push(`seed ${this.seed}: ${what}`);
  }

  #sleep(duration: number): Promise<void> {
    return new Promise((resolve) => this.#scene.environment.schedule(duration, resolve));
  }

  #isLikely(chance: number): boolean {
    return this.#dice.random() < chance;
  }

  #upTo(limit: number): number {
    return Math.floor(this.#dice.random() * limit);
  }

  #oneOf<T>(items: readonly T[]): T {
    return items[this.#upTo(items.length)] as T;
  }
}

it('nobody who acts on what he is told, at whatever moment, breaks a lock or leaves anything', async () => {
  const findings: string[] = [];
  for (let seed = 1; seed <= PLAYS; seed += 1) {
    const play = new Play(seed);
    await play.run();
    findings.push(...play.findings);
  }
  expect(findings).toEqual([]);
}, 120_000);
