// Callers in virtual time who ask for more while they hold locks, always in one order, so that they
// never wait for each other in a ring: then no call may do so either, whatever else waits before it.
import { Random } from '../simulation/random.js';
import { setScene } from './scene.js';
import type { Lock } from '../../lib/core/lock.js';
import type { UsingOptions } from '../../lib/core/options.js';
import type { Redlock } from '../../lib/core/redlock.js';
import type { SimulatedEnvironment } from '../support/simulated-environment.js';
import type { TestNode } from '../support/test-node.js';

const RESOURCES = ['a', 'b', 'c', 'd'];
const STEPS = 40;
const CALLERS_MAX = 14;
const ttl = 1_000;

/** Far more than a call waits here that is in no ring; in ms. */
const WAIT = 5_000;

/** One play: its own nodes, processes and callers, all drawn from its seed. */
export class NestedPlay {
  readonly findings: string[] = [];
  readonly #dice: Random;
  readonly #environment: SimulatedEnvironment;
  readonly #nodes: readonly TestNode[];
  readonly #processes: readonly Redlock[];
  readonly #callers = new Set<Promise<void>>();
  readonly #locks = new Set<Lock>();
  readonly #tokens = new Map<string, number>();

  constructor(readonly seed: number) {
    this.#dice = new Random(seed, 1);
    const scene = setScene({ seed, nodes: this.#dice.pick([1, 2, 3, 3, 4]) });
    this.#environment = scene.environment;
    this.#nodes = scene.nodes;
    const delay = this.#dice.pick([0, 0.2, 1, 5]);
    for (const node of this.#nodes) {
      node.delay({ request: delay * this.#dice.next(), answer: delay * this.#dice.next() });
    }
    const options = { ttl, wait: WAIT, quarantine: false, retryDelay: { min: 5, max: 20 } };
    this.#processes = Array.from({ length: this.#dice.pick([1, 2, 3]) }, () =>
      scene.otherProcess(options),
    );
  }

  async run(): Promise<void> {
    for (let step = 0; step < STEPS; step += 1) {
      for (let count = this.#dice.integer(0, 3); count > 0; count -= 1) this.#addCaller();
      await this.#environment.advance(this.#dice.next() * 20);
    }
    await this.#environment.advance(3 * WAIT);
    if (this.#callers.size > 0) this.#find(`${this.#callers.size} callers never end`);
    await this.#environment.advance(4 * ttl);
    await this.#findRemains();
  }

  #addCaller(): void {
    if (this.#callers.size === CALLERS_MAX) return;
    const caller = this.#call(this.#dice.pick(this.#processes), 0, []);
    this.#callers.add(caller);
    void caller.then(() => this.#callers.delete(caller));
  }

  /** Asks for resources from this one on, and while it holds them for more. */
  async #call(redlock: Redlock, from: number, held: readonly string[]): Promise<void> {
    const wanted = this.#draw(from);
    if (wanted.length === 0) return;
    const abortion = new AbortController();
    const options: UsingOptions = { signal: abortion.signal };
    if (this.#dice.chance(0.1)) {
      this.#environment.schedule(this.#dice.next() * 100, () => abortion.abort());
    }
    const body = async (lock: Lock): Promise<void> => {
      this.#got(lock);
      await this.#sleep(this.#dice.next() ** 2 * 6);
      const next = RESOURCES.indexOf(wanted.at(-1) ?? '') + 1;
      if (this.#dice.chance(0.6)) await this.#call(redlock, next, [...held, ...wanted]);
      await this.#sleep(this.#dice.next() ** 3 * 15);
      this.#locks.delete(lock);
    };
    try {
      await redlock.using(wanted, options, body, held);
    } catch (error) {
      if (!abortion.signal.aborted) this.#find(`${wanted.join('+')}: ${String(error)}`);
    }
  }

  // Inside a lock for one alone: a call for several that is itself inside one is passed by nobody,
  // and may wait in a ring.
  #draw(from: number): string[] {
    const rest = RESOURCES.slice(from);
    if (rest.length === 0) return [];
    const isForOne = from > 0 || this.#dice.chance(0.5);
    return isForOne ? [this.#dice.pick(rest)] : rest.filter(() => this.#dice.chance(0.5));
  }

  #got(lock: Lock): void {
    for (const resource of lock.resources) {
      const holder = [...this.#locks].find(
        (other) => other.isValid && other.resources.includes(resource),
      );
      if (holder !== undefined) this.#find(`${resource}: ${holder.ownerId} and ${lock.ownerId}`);
      const token = this.#tokens.get(resource) ?? 0;
      if (lock.fencingToken <= token)
        this.#find(`${resource}: ${lock.fencingToken} after ${token}`);
      this.#tokens.set(resource, lock.fencingToken);
    }
    this.#locks.add(lock);
  }

  async #findRemains(): Promise<void> {
    for (const redlock of this.#processes) {
      const { held, waiting } = redlock.status();
      if (held + waiting > 0) this.#find(`${held} locks held, ${waiting} calls waiting`);
    }
    const { pendingTimers } = this.#environment;
    if (pendingTimers > 0) this.#find(`${pendingTimers} timers`);
    for (const node of this.#nodes) {
      for (const resource of RESOURCES) {
        if ((await node.ownerOf(resource)) !== null) this.#find(`key of ${resource} left`);
        if (node.listenersOf(resource) > 0) this.#find(`${resource} is still listened for`);
      }
    }
  }

  #sleep(duration: number): Promise<void> {
    return new Promise((resolve) => this.#environment.schedule(duration, resolve));
  }

  #find(what: string): void {
    this.findings.push(`seed ${this.seed}: ${what}`);
  }
}
