import { TransientMap } from './transient-map.js';
import type { Environment, TimerHandle } from './environment.js';
import type { Milliseconds } from './units.js';

/** Width of a slot, and by how much a coalesced timer may be late. */
export const SLOT: Milliseconds = 10;

interface Slot {
  readonly callbacks: Set<() => void>;
  readonly timer: TimerHandle;
}

/**
 * Timers that end together where they would end within 10 ms of each other. What their callbacks
 * ask of a node then travels as one script call; after timers of their own each would make one.
 */
export class CoalescedTimers {
  readonly #environment: Environment;
  readonly #slots = new TransientMap<number, Slot>();

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  /** Calls back once, `delay` ms from now or up to 10 ms later. Returns what stops the timer. */
  start(delay: Milliseconds, callback: () => void): () => void {
    const number = Math.ceil((this.#environment.now() + delay) / SLOT);
    const slot = this.#slots.get(number) ?? this.#addSlot(number);
    slot.callbacks.add(callback);
    return () => {
      slot.callbacks.delete(callback);
      if (slot.callbacks.size > 0) return;
      this.#environment.stopTimer(slot.timer);
      this.#slots.delete(number);
    };
  }

  #addSlot(number: number): Slot {
    const callbacks = new Set<() => void>();
    const end = (): void => {
      this.#slots.delete(number);
      for (const callback of callbacks) callback();
    };
    const delay = number * SLOT - this.#environment.now();
    const slot = { callbacks, timer: this.#environment.startTimer(delay, end, true) };
    this.#slots.set(number, slot);
    return slot;
  }
}
