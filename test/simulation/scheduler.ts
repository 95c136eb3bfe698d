// True time: one queue of events for the whole universe, and nothing that waits for real time.

/** Something that happens at an instant of true time. */
export interface SimulatedEvent {
  time: number;
  readonly sequence: number;
  action: (() => void) | null;
}

/** Runs events in the order of their time; those of one instant in the order they were made in. */
export class Scheduler {
  /** True time, in ms since the universe began. */
  now = 0;
  /** How many events have run. */
  events = 0;
  /** Set by an event that ran code with promises: their continuations run before the next event. */
  needsDrain = false;
  #sequence = 0;
  readonly #heap: SimulatedEvent[] = [];

  at(time: number, action: () => void): SimulatedEvent {
    this.#sequence += 1;
    const event = { time: Math.max(time, this.now), sequence: this.#sequence, action };
    this.#push(event);
    return event;
  }

  after(delay: number, action: () => void): SimulatedEvent {
    return this.at(this.now + delay, action);
  }

  /** Puts an event that has just fired off; it keeps its place among those of the new instant. */
  postpone(event: SimulatedEvent, time: number, action: () => void): void {
    event.time = time;
    event.action = action;
    this.#push(event);
  }

  cancel(event: SimulatedEvent): void {
    event.action = null;
  }

  /** Runs all events up to `until`. Rejects with what an event throws. */
  run(until: number): Promise<void> {
    return new Promise((resolve, reject) => {
      // Called out of a microtask, nextTick calls back when no microtask is left at all.
      const onDrained = (): void => process.nextTick(step);
      const step = (): void => {
        try {
          for (let event = this.#pop(until); event !== null; event = this.#pop(until)) {
            this.#fire(event);
            if (!this.needsDrain) continue;
            this.needsDrain = false;
            queueMicrotask(onDrained);
            return;
          }
          this.now = until;
          resolve();
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      };
      step();
    });
  }

  #fire(event: SimulatedEvent): void {
    const { action } = event;
    if (action === null) return;
    this.now = event.time;
    this.events += 1;
    event.action = null;
    action();
  }

  #push(event: SimulatedEvent): void {
    const heap = this.#heap;
    let index = heap.length;
    heap.push(event);
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = heap[parentIndex];
      if (parent === undefined || !isBefore(event, parent)) break;
      heap[index] = parent;
      index = parentIndex;
    }
    heap[index] = event;
  }

  #pop(until: number): SimulatedEvent | null {
    const heap = this.#heap;
    const first = heap[0];
    if (first === undefined || first.time > until) return null;
    const last = heap.pop();
    if (last !== undefined && last !== first) this.#sink(last);
    return first;
  }

  #sink(event: SimulatedEvent): void {
    const heap = this.#heap;
    let index = 0;
    for (;;) {
      const leftIndex = 2 * index + 1;
      const left = heap[leftIndex];
      if (left === undefined) break;
      const right = heap[leftIndex + 1];
      const isRight = right !== undefined && isBefore(right, left);
      const child = isRight ? right : left;
      if (!isBefore(child, event)) break;
      heap[index] = child;
      index = isRight ? leftIndex + 1 : leftIndex;
    }
    heap[index] = event;
  }
}

function isBefore(one: SimulatedEvent, other: SimulatedEvent): boolean {
  if (one.time !== other.time) return one.time < other.time;
  return one.sequence < other.sequence;
}
