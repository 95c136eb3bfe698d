// Callers in virtual time who ask for more while they hold locks, always in one order, so that they
// never wait for each other in a ring: then no call may do so either, whatever else waits before it.
import { Random } from '../simulation/random.js';
import { overlapsOf, remainsOf } from './play-checks.js';
import { setScene, type Scene } from './scene.js';
import type { Lock } from '../../lib/core/lock.js';
import type { UsingOptions } from '../../lib/core/options.js';
import type { Redlock } from '../../lib/core/redlock.js';

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
  readonly #scene: Scene;
  readonly #processes: readonly Redlock[];
  readonly #callers = new Set<Promise<void>>();
  readonly #locks = new Set<Lock>();
  readonly #tokens = new Map<string, number>();

  constructor(readonly seed: number) {
    this.#dice = new Random(seed, 1);
    this.#scene = setScene({ seed, nodes: this.#dice.pick([1, 2, 3, 3, 4]) });
    const delay = this.#dice.pick([0, 0.2, 1, 5]);
    for (const node of this.#scene.nodes) {
      node.delay({ request: delay * this.#dice.next(), answer: delay * this.#dice.next() });
    }
    const options = { ttl, wait: WAIT, quarantine: false, retryDelay: { min: 5, max: 20 } };
    this.#processes = Array.from({ length: this.#dice.pick([1, 2, 3]) }, () =>
      this.#scene.otherProcess(options),
    );
  }

  async run(): Promise<void> {
    for (let step = 0; step < STEPS; step += 1) {
      for (let count = this.#dice.integer(0, 3); count > 0; count -= 1) this.#addCaller();
      await this.#scene.environment.advance(this.#dice.next() * 20);
    }
    await this.#scene.environment.advance(3 * WAIT);
    if (this.#callers.size > 0) this.#find(`${this.#callers.size} callers never end`);
    await this.#scene.environment.advance(4 * ttl);
    this.#find(...(await remainsOf(this.#scene, this.#processes, RESOURCES)));
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
      this.#scene.environment.schedule(this.#dice.next() * 100, () => abortion.abort());
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
    this.#locks.add(lock);
    this.#find(...overlapsOf(this.#locks));
    const { fencingToken, resources } = lock;
    for (const resource of resources) {
      const isHigher = fencingToken > (this.#tokens.get(resource) ?? 0);
      if (!isHigher) this.#find(`${fencingToken} for ${resource} is no higher token`);
      this.#tokens.set(resource, fencingToken);
    }
  }

  #sleep(duration: number): Promise<void> {
    return new Promise((resolve) => this.#scene.environment.schedule(duration, resolve));
  }

  #find(...found: readonly string[]): void {
    this.findings.push(...found.map((what) => `seed ${this.seed}: ${what}`));
  }
}
