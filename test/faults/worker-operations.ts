// What a worker of a torture run does, over and over: the public API, as applications use it.
import { setTimeout as sleep } from 'node:timers/promises';

import {
  RedlockError,
  type Lock,
  type Milliseconds,
  type RedlockService,
  type UsingOptions,
} from 'nestjs-locked';

import type { Random } from '../simulation/random.js';
import type { GuardedStore } from './guarded-store.js';
import { HeldLock } from './held-lock.js';
import { instantNow, type HistoryWriter } from './history.js';

/** What the operations of one worker share. */
export interface WorkerTools {
  /** Names the worker, and which of its lives this is. */
  readonly name: string;
  readonly redlock: RedlockService;
  readonly store: GuardedStore;
  readonly history: HistoryWriter;
  /** The longest ttl that may be asked for. */
  readonly ttlMax: Milliseconds;
  onGrant(): void;
}

type Operation = (this: Operations) => Promise<void>;

/** One line of operations, one after the other. */
export class Operations {
  readonly #tools: WorkerTools;
  readonly #random: Random;
  readonly #resources: readonly string[];
  #isBrief = false;

  /** Draws operations on these resources. */
  constructor(tools: WorkerTools, random: Random, resources: readonly string[]) {
    this.#tools = tools;
    this.#random = random;
    this.#resources = resources;
  }

  /** Goes on until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#attempt(this.#random.pick(operations));
      await sleep(this.#random.between(1, 30));
    }
  }

  /** Takes and returns one resource again and again, for moments: shows that locks can be had. */
  async runBriefly(signal: AbortSignal): Promise<void> {
    this.#isBrief = true;
    while (!signal.aborted) {
      await this.#attempt(byHand);
      await sleep(this.#random.between(20, 60));
    }
  }

  async #attempt(operation: Operation): Promise<void> {
    try {
      await operation.call(this);
    } catch (error) {
      // Refusal and loss are what faults are for; anything else ends the worker.
      if (!(error instanceof RedlockError)) throw error;
      this.#tools.history.write({ kind: 'refused', code: error.code });
    }
  }

  resource(): string {
    return this.#random.pick(this.#resources);
  }

  several(): readonly string[] {
    return this.#resources.filter(() => this.#random.chance(0.7)).concat(this.resource());
  }

  ttl(): Milliseconds {
    return this.#random.integer(300, this.#tools.ttlMax);
  }

  wait(): Milliseconds {
    return this.#isBrief ? 300 : this.#random.integer(0, 800);
  }

  async acquire(resources: string | readonly string[]): Promise<HeldLock> {
    const calledAt = instantNow();
    const options = { wait: this.wait() };
    return this.#take(await this.#tools.redlock.acquire(resources, this.ttl(), options), calledAt);
  }

  async tryAcquire(resource: string): Promise<HeldLock | null> {
    const calledAt = instantNow();
    const lock = await this.#tools.redlock.tryAcquire(resource, this.ttl());
    return lock === null ? null : this.#take(lock, calledAt);
  }

  async using(
    resources: string | readonly string[],
    options: UsingOptions,
    work = (held: HeldLock) => this.work(held),
  ): Promise<void> {
    const calledAt = instantNow();
    await this.#tools.redlock.using(resources, options, async (lock) => {
      const held = this.#take(lock, calledAt);
      try {
        await work(held);
      } finally {
        held.end();
      }
    });
  }

  /** Several calls at once that want the same for a moment: it is handed over among them. */
  async crowd(): Promise<void> {
    const resource = this.resource();
    const options = { ttl: this.#tools.ttlMax, wait: this.wait() };
    const calls = Array.from({ length: 6 }, () =>
      this.using(resource, options, (held) => this.#write(held)),
    );
    const outcomes = await Promise.allSettled(calls);
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }

  /** Lets go, and releases. */
  async release(held: HeldLock): Promise<void> {
    held.end();
    await held.lock.release();
  }

  /** Some writes to what the lock guards, while it is held. */
  async work(held: HeldLock): Promise<void> {
    const steps = this.#isBrief ? 1 : this.#random.integer(1, 6);
    for (let step = 0; step < steps && held.isHeld(); step += 1) {
      await this.#write(held);
      if (!this.#isBrief) await sleep(this.#random.between(0, 200));
      if (held.lock.signal.aborted) return;
    }
  }

  /** A write that its token alone keeps from coming too late. */
  async writeFenced({ lock }: HeldLock): Promise<void> {
    const resource = this.#random.pick(lock.resources);
    const isAccepted = await this.#tools.store.addFenced(resource, lock.fencingToken);
    this.#tools.history.write({ kind: 'fenced', isAccepted });
  }

  async #write(held: HeldLock): Promise<void> {
    // Unlike any other of the lock, which may be worked under twice: one of them may be in doubt.
    const increment = `${held.name}#${(increments += 1)}`;
    await this.#tools.store.add(this.#random.pick(held.lock.resources), increment);
    this.#tools.history.write({ kind: 'incremented', increment, isSure: held.isHeld() });
    await this.writeFenced(held);
  }

  #take(lock: Lock, calledAt: Milliseconds): HeldLock {
    const { history, name } = this.#tools;
    const held = new HeldLock(lock, `${name}/${(grants += 1)}`, calledAt, history);
    this.#tools.onGrant();
    return held;
  }

  /** Until the last milliseconds of the validity, then without a pause past its end. */
  async outstay(held: HeldLock): Promise<void> {
    await sleep(Math.max(0, held.lock.remaining - 5));
    held.outstay();
  }
}

let grants = 0;
let increments = 0;

const underWatchdog: Operation = async function () {
  await this.using(this.resource(), { ttl: this.ttl(), wait: this.wait() });
};

const crowded: Operation = function () {
  return this.crowd();
};

const byHand: Operation = async function () {
  const held = await this.acquire(this.resource());
  await this.work(held);
  await this.release(held);
};

const extendedByHand: Operation = async function () {
  const held = await this.acquire(this.resource());
  try {
    await this.work(held);
    await held.extend(this.ttl());
    await this.work(held);
    await held.extend(this.ttl());
  } finally {
    await this.release(held);
  }
};

const several: Operation = async function () {
  await this.using(this.several(), { ttl: this.ttl(), wait: this.wait() });
};

const releasedLate: Operation = async function () {
  const held = await this.acquire(this.resource());
  await this.outstay(held);
  await sleep(this.wait());
  await this.writeFenced(held);
  await this.release(held);
};

const triedOnce: Operation = async function () {
  const held = await this.tryAcquire(this.resource());
  if (held === null) return;
  await this.work(held);
  await this.release(held);
};

const abandoned: Operation = async function () {
  const held = await this.acquire(this.resource());
  await this.work(held);
};

const operations: readonly Operation[] = [
  underWatchdog,
  underWatchdog,
  crowded,
  byHand,
  extendedByHand,
  extendedByHand,
  several,
  several,
  releasedLate,
  releasedLate,
  triedOnce,
  abandoned,
];
