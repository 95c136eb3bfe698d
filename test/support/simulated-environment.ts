// Virtual time for tests: nothing here sleeps, and a seed repeats a run exactly.
import { setImmediate as nextTurn } from 'node:timers/promises';

import { DELAY_MAX } from '../../lib/core/options.js';
import type { Environment, TimerHandle } from '../../lib/core/environment.js';
import type { Milliseconds } from '../../lib/core/units.js';

/** What a {@link SimulatedEnvironment} may be told. */
export interface SimulatedEnvironmentOptions {
  /** Repeats the same random numbers. @default 1 */
  readonly seed?: number;
  /** Monotonic time at the start. @default 1_000.25 – real ones are no whole numbers either */
  readonly now?: Milliseconds;
  /** Wall-clock time at the start. @default 2026-01-01 */
  readonly wallClock?: Milliseconds;
}

interface SimulatedTimer {
  readonly dueAt: Milliseconds;
  readonly sequence: number;
  readonly callback: () => void;
  readonly holdsProcess: boolean;
}

/** Two clocks, timers and randomness that move only when a test says so. */
export class SimulatedEnvironment implements Environment {
  readonly #timers = new TimerHeap();
  readonly #pending = new Set<SimulatedTimer>();
  #now: Milliseconds;
  #wallClock: Milliseconds;
  #randomState: number;
  #timersStarted = 0;
  #idsMade = 0;

  constructor(options: SimulatedEnvironmentOptions = {}) {
    this.#now = options.now ?? 1_000.25;
    this.#wallClock = options.wallClock ?? 1_767_225_600_000;
    this.#randomState = options.seed ?? 1;
  }

  /** How many timers were started and have neither fired nor been stopped. */
  get pendingTimers(): number {
    return this.#pending.size;
  }

  /** Those of {@link pendingTimers} that would keep a process from exiting. */
  get processHoldingTimers(): number {
    return [...this.#pending].filter((timer) => timer.holdsProcess).length;
  }

  now(): Milliseconds {
    return this.#now;
  }

  wallClock(): Milliseconds {
    return this.#wallClock;
  }

  /** Like Node's `setTimeout`: whole milliseconds, cut off; one for what is less, or too much. */
  startTimer(delay: Milliseconds, callback: () => void, holdsProcess: boolean): TimerHandle {
    const wholeDelay = delay >= 1 && delay <= DELAY_MAX ? Math.trunc(delay) : 1;
    return this.#start(wholeDelay, callback, holdsProcess);
  }

  /** Calls back after exactly `delay` ms: for what is no timer of the process, like a network. */
  schedule(delay: Milliseconds, callback: () => void): void {
    this.#start(delay, callback, false, false);
  }

  stopTimer(timer: TimerHandle): void {
    const isOurs = (known: unknown): known is SimulatedTimer =>
      this.#pending.has(known as SimulatedTimer);
    if (!isOurs(timer)) return;
    this.#pending.delete(timer);
    this.#timers.drop(timer);
  }

  /** mulberry32: small, seeded, good enough for delays. */
  random(): number {
    this.#randomState = (this.#randomState + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#randomState ^ (this.#randomState >>> 15), 1 | this.#randomState);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  randomId(): string {
    this.#idsMade += 1;
    const digits = Math.floor(this.random() * 4_294_967_296).toString(16);
    return `${digits.padStart(16, '0')}${this.#idsMade.toString(16).padStart(16, '0')}`;
  }

  /** Lets time pass: runs what is due in order, and lets promises settle in between. */
  async advance(duration: Milliseconds): Promise<void> {
    const until = this.#now + duration;
    await drainMicrotasks();
    for (;;) {
      const next = this.#timers.peek();
      if (next === undefined || next.dueAt > until) break;
      this.#timers.drop(next);
      this.#pending.delete(next);
      this.#move(Math.max(0, next.dueAt - this.#now));
      next.callback();
      await drainMicrotasks();
    }
    this.#move(Math.max(0, until - this.#now));
  }

  /** Lets promises settle; no time passes. */
  settle(): Promise<void> {
    return drainMicrotasks();
  }

  /** Lets time pass without running anything: a blocked event loop, a long garbage collection. */
  block(duration: Milliseconds): void {
    this.#move(duration);
  }

  /** Steps the wall clock alone, as an administrator or a time server does. */
  stepWallClock(step: Milliseconds): void {
    this.#wallClock += step;
  }

  /** The machine sleeps: its wall clock goes on, its monotonic clock stands still. */
  suspend(duration: Milliseconds): void {
    this.#wallClock += duration;
  }

  #start(
    delay: Milliseconds,
    callback: () => void,
    holdsProcess: boolean,
    isTimer = true,
  ): SimulatedTimer {
    this.#timersStarted += 1;
    const dueAt = this.#now + delay;
    const timer = { dueAt, sequence: this.#timersStarted, callback, holdsProcess };
    this.#timers.add(timer);
    if (isTimer) this.#pending.add(timer);
    return timer;
  }

  #move(duration: Milliseconds): void {
    this.#now += duration;
    this.#wallClock += duration;
  }
}

// A turn of the event loop: Node empties its queue of microtasks before it takes the next one.
async function drainMicrotasks(): Promise<void> {
  await nextTurn();
}

/** A binary heap: the earliest timer first, and of equals the one started first. */
class TimerHeap {
  readonly #timers: SimulatedTimer[] = [];

  peek(): SimulatedTimer | undefined {
    return this.#timers[0];
  }

  add(timer: SimulatedTimer): void {
    this.#timers.push(timer);
    this.#raise(this.#timers.length - 1);
  }

  drop(timer: SimulatedTimer): void {
    const place = this.#timers.indexOf(timer);
    const last = this.#timers.pop();
    if (last === undefined || last === timer) return;
    this.#timers[place] = last;
    this.#raise(place);
    this.#lower(place);
  }

  #raise(from: number): void {
    let place = from;
    while (place > 0 && this.#isBefore(place, (place - 1) >> 1)) {
      this.#swap(place, (place - 1) >> 1);
      place = (place - 1) >> 1;
    }
  }

  #lower(from: number): void {
    let place = from;
    for (;;) {
      const children = [2 * place + 1, 2 * place + 2];
      const next = children
        .filter((child) => child < this.#timers.length)
        .reduce((first, child) => (this.#isBefore(child, first) ? child : first), place);
      if (next === place) return;
      this.#swap(place, next);
      place = next;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const [a, b] = [this.#timers[one], this.#timers[other]];
    if (a === undefined || b === undefined) return false;
    return a.dueAt < b.dueAt || (a.dueAt === b.dueAt && a.sequence < b.sequence);
  }

  #swap(one: number, other: number): void {
    const [a, b] = [this.#timers[one], this.#timers[other]];
    if (a === undefined || b === undefined) return;
    this.#timers[one] = b;
    this.#timers[other] = a;
  }
}
