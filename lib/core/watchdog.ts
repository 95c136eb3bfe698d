import { bindToContext } from './environment.js';
import { TransientMap } from './transient-map.js';
import type { Environment, TimerHandle } from './environment.js';
import type { Milliseconds } from './units.js';

/** Something that wants to be looked after at certain times. */
export interface Watched {
  onDue(): void;
  /** The watchdog's own note: when it is due, while it is watched. A map would cost more. */
  watchdogSlot?: number | null;
}

/**
 * Width of a slot. Locks due within it are extended together, all a little early, never late: no
 * more than 100 calls per second to a node, while there is room.
 */
const SLOT: Milliseconds = 10;

/**
 * How many have room in a slot: as many as a node takes in one call. Of more locks acquired all at
 * once, the rest go to earlier slots, or the burst would come back each third of the ttl.
 */
const SLOT_ROOM = 128;

/**
 * One timer for all held locks: calls each back when its next extension, or the end of its
 * validity, is due. A timer per lock would cost more than the lock.
 */
export class Watchdog {
  readonly #environment: Environment;
  readonly #slots = new TransientMap<number, Set<Watched>>();
  #timer: TimerHandle = null;
  #timerSlot = Infinity;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  /**
   * Calls `watched` back once, at `dueAt` or up to 10 ms before; if many are due together, earlier
   * by up to half the time from now until `dueAt`. Replaces its earlier date.
   */
  watch(watched: Watched, dueAt: Milliseconds): void {
    this.unwatch(watched);
    const slot = this.#slotWithRoom(dueAt);
    const members = this.#slots.get(slot);
    if (members === undefined) this.#slots.set(slot, new Set([watched]));
    else members.add(watched);
    watched.watchdogSlot = slot;
    if (slot < this.#timerSlot) this.#startTimer(slot);
  }

  /** Forgets `watched`; what nobody watches costs nothing. */
  unwatch(watched: Watched): void {
    const slot = watched.watchdogSlot ?? null;
    if (slot === null) return;
    watched.watchdogSlot = null;
    const members = this.#slots.get(slot);
    members?.delete(watched);
    if (members?.size === 0) this.#slots.delete(slot);
    // Unless it was the last, the timer is left alone: a needless call costs less than a new timer.
    if (this.#slots.size === 0) this.#stopTimer();
  }

  #slotWithRoom(dueAt: Milliseconds): number {
    const last = Math.floor(dueAt / SLOT);
    if (this.#hasRoom(last)) return last;
    const first = (dueAt + this.#environment.now()) / 2 / SLOT;
    for (let slot = last - 1; slot >= first; slot -= 1) {
      if (this.#hasRoom(slot)) return slot;
    }
    return last;
  }

  #hasRoom(slot: number): boolean {
    return (this.#slots.get(slot)?.size ?? 0) < SLOT_ROOM;
  }

  // In the async context of the start, because it looks after everybody's locks: the call that came
  // first must neither stay in memory for it, nor be named in what is told of the other locks.
  readonly #onTimer = bindToContext((): void => {
    const current = Math.floor(this.#environment.now() / SLOT);
    const due: number[] = [];
    this.#timerSlot = Infinity;
    let next = Infinity;
    for (const slot of this.#slots.keys()) {
      if (slot <= current) due.push(slot);
      else if (slot < next) next = slot;
    }
    if (next < Infinity) this.#startTimer(next);
    for (const slot of due.sort((a, b) => a - b)) {
      // A copy: whoever is called back may watch again, or unwatch others.
      for (const watched of [...(this.#slots.get(slot) ?? [])]) {
        if (watched.watchdogSlot !== slot) continue;
        this.unwatch(watched);
        watched.onDue();
      }
    }
  });

  #startTimer(slot: number): void {
    this.#stopTimer();
    this.#timerSlot = slot;
    // At least 1 ms: a timer of Node may fire a fraction early, and would then spin.
    const delay = Math.max(1, slot * SLOT - this.#environment.now());
    this.#timer = this.#environment.startTimer(delay, this.#onTimer, false);
  }

  #stopTimer(): void {
    this.#environment.stopTimer(this.#timer);
    this.#timerSlot = Infinity;
  }
}
