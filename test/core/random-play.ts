// Calls and faults at random, in virtual time, and users who act from within whatever they are told,
// or from within nodes of their own: they abort, release, extend or ask for more. Whatever they do,
// no two of them hold a resource, tokens grow, nobody asks the nodes in a frenzy, every call ends, at
// once where it is given up, each lock is told of from its beginning to its one end, and in the end
// nothing is left of it.
import { getEventListeners } from 'node:events';

import { Redlock } from '../../lib/core/redlock.js';
import { Random } from '../simulation/random.js';
import { overlapsOf, remainsOf } from './play-checks.js';
import { reactingNode } from './reacting-node.js';
import { setScene, type Scene } from './scene.js';
import type { Lock } from '../../lib/core/lock.js';
import type { RedlockObserver } from '../../lib/core/observer.js';
import type { RedlockOptions } from '../../lib/core/options.js';
import type { NodeFault } from '../../lib/testing/node-faults.js';
import { toldTo, type TestNode } from '../support/test-node.js';

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

/** One play: its own calls, faults and acts, all drawn from its seed. */
export class Play {
  readonly findings: string[] = [];
  readonly #scene: Scene;
  readonly #dice: Random;
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
    this.#dice = new Random(seed, 1);
    this.#scene = setScene({ seed, nodes: this.#dice.pick([1, 2, 3, 4, 5]) });
    const { environment, nodes } = this.#scene;
    const options: RedlockOptions = {
      fencing: this.#dice.chance(0.7),
      quarantine: false,
      ttlMax: 1_000,
      shutdownTimeout: 200,
      retryDelay: { min: 5, max: 20 },
    };
    const react = (): void => this.#react();
    const hear = (what: string) => (lock: Lock) => {
      this.#told.set(lock, [...(this.#told.get(lock) ?? []), what]);
      // Also what this tells of.
      if (what === 'released' && this.#doReact && this.#dice.chance(0.2)) void lock.release();
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
    const reacting = nodes.map((node) => reactingNode(node, react));
    const ports = { environment, observer };
    this.#processes = [0, 1, 2].map(() => new Redlock(reacting, options, ports));
  }

  async run(): Promise<void> {
    const { environment, nodes } = this.#scene;
    for (let step = 0; step < STEPS; step += 1) {
      const node = this.#dice.pick(nodes);
      const before = node.count('acquire');
      this.#act(node);
      await environment.advance(this.#dice.next() * 30);
      const asked = node.count('acquire') - before;
      if (asked > FRENZY) this.#find(`${asked} acquisitions of one node in step ${step}`);
      this.#find(...overlapsOf(this.#locks));
      await this.#findForgotten();
      // What was given up just now, from within the above.
      await environment.settle();
      this.#findSlow();
    }
    await this.#end();
  }

  #act(node: TestNode): void {
    const choice = this.#dice.next();
    if (choice < 0.55) this.#call();
    else if (choice < 0.62) node.hang();
    else if (choice < 0.72) node.heal();
    else if (choice < 0.8) node.delay({ request: this.#upTo(20), answer: this.#upTo(20) });
    else if (choice < 0.86) this.#fail(node);
    else if (choice < 0.9) this.#scene.environment.block(this.#upTo(120));
    else if (choice < 0.92) this.#scene.environment.stepWallClock(this.#upTo(4_000) - 2_000);
    else if (choice < 0.93) this.#scene.environment.suspend(this.#upTo(3_000));
    else if (choice < 0.96) node.isDeaf = this.#dice.chance(0.5);
    else if (choice < 0.98) this.#forgeWakeUp(node);
  }

  #forgeWakeUp(node: TestNode): void {
    const told = toldTo(this.#upTo(4), this.#upTo(2));
    node.forgeWakeUp(this.#dice.pick(RESOURCES), told);
  }

  #fail(node: TestNode): void {
    const fault = this.#dice.pick(FAULTS);
    const operation = this.#dice.pick(['acquire', 'extend', 'release', null] as const);
    if (operation === null) node.fail(fault);
    else node.fail(fault, operation);
  }

  #call(): void {
    const { environment } = this.#scene;
    const open = { controller: new AbortController(), abortedAt: Infinity };
    this.#open.add(open);
    const call = this.#useLock(open).catch(() => this.#settled(open));
    if (this.#dice.chance(0.3)) environment.schedule(this.#upTo(150), () => this.#abort(open));
    // In the tick of the call.
    if (this.#dice.chance(0.03)) this.#abort(open);
    this.#calls.add(call);
    void call.then(() => this.#calls.delete(call));
  }

  #abort(call: OpenCall | null): void {
    if (call === null) return;
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
    const isAlike = this.#dice.chance(0.5);
    const redlock = this.#dice.pick(isAlike ? this.#processes.slice(0, 1) : this.#processes);
    const wanted = RESOURCES.filter((name) => (isAlike ? name === 'a' : this.#dice.chance(0.5)));
    const resources = wanted.length > 0 ? wanted : RESOURCES;
    // Doubled and in another order.
    if (this.#dice.chance(0.2)) wanted.push(...[...wanted].reverse());
    const wait = this.#dice.pick([0, 30, 200, 1_000]);
    const ttl = isAlike ? 300 : 100 + this.#upTo(400);
    const duration = this.#upTo(this.#dice.chance(0.2) ? 800 : isAlike ? 12 : 60);
    const { signal } = open.controller;
    const options = { wait, signal, watchdog: this.#dice.chance(0.5), maxHold: 3_000 };
    const tokens = new Map(this.#tokens);
    if (this.#dice.chance(isAlike ? 0.1 : 0.5)) {
      const lock = await redlock.acquire(resources, ttl, options);
      this.#got(lock, open, tokens);
      await this.#sleep(duration);
      if (this.#dice.chance(0.9)) await lock.release();
    } else {
      const holdAtLeast = this.#dice.chance(0.2) ? this.#upTo(300) : 0;
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
    this.#find(...overlapsOf(this.#locks));
    for (const resource of lock.resources) {
      const isLower = fencingToken > 0 && fencingToken <= (earlier.get(resource) ?? 0);
      if (isLower) this.#find(`${fencingToken} for ${resource} is no higher token`);
      this.#tokens.set(resource, Math.max(fencingToken, this.#tokens.get(resource) ?? 0));
    }
    if (this.#dice.chance(0.5)) lock.signal.addEventListener('abort', () => this.#react());
  }

  // Called from within the library. One act is enough: it would be told of that in turn.
  #react(): void {
    if (!this.#doReact || !this.#dice.chance(0.15)) return;
    this.#doReact = false;
    const lock = this.#dice.pick([...this.#locks, null]);
    const acts = [
      () => this.#abort(this.#dice.pick([...this.#open, null])),
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
    this.#dice.pick(acts)();
    this.#doReact = true;
  }

  async #end(): Promise<void> {
    const { environment, nodes } = this.#scene;
    this.#doReact = false;
    for (const node of nodes) {
      node.heal();
      node.isDeaf = false;
    }
    const isClosed = this.#dice.chance(0.3);
    if (isClosed) void this.#dice.pick(this.#processes).close();
    for (let moment = 0; moment < 60; moment += 1) {
      await environment.advance(100);
      this.#find(...overlapsOf(this.#locks));
    }
    if (this.#calls.size > 0) this.#find(`${this.#calls.size} calls never end`);
    for (const lock of this.#locks) void lock.release();
    await environment.advance(4_000);
    this.#find(...(await remainsOf(this.#scene, this.#processes, RESOURCES)));
    // What a shutdown leaves to its ttl is not told of.
    if (!isClosed) this.#findUntold();
  }

  #findUntold(): void {
    for (const told of this.#told.values()) {
      if (!/^acquired,(extended,)*(released|lost)$/.test(told.join())) this.#find(told.join());
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

  #find(...found: readonly string[]): void {
    this.findings.push(...found.map((what) => `seed ${this.seed}: ${what}`));
  }

  #sleep(duration: number): Promise<void> {
    return new Promise((resolve) => this.#scene.environment.schedule(duration, resolve));
  }

  #upTo(limit: number): number {
    return this.#dice.integer(0, limit - 1);
  }
}
