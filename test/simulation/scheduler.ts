// True time: one queue of events for the whole universe, and nothing that waits for real time.

/** Something that happens at an instant of true time. */
export interface SimulatedEvent {
  time: number;
  sequence: number;
  /** What it comes from. Those of one source keep their order, also at one instant. */
  readonly source: object | null;
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
  #isHalted = false;
  readonly #heap: SimulatedEvent[] = [];

  at(time: number, action: () => void, source: object | null = null): SimulatedEvent {
    const event = { time: Math.max(time, this.now), sequence: this.#next(), source, action };
    this.push(event);
    return event;
  }

  after(delay: number, action: () => void): SimulatedEvent {
    return this.at(this.now + delay, action);
  }

  /** Puts an event that has just fired off; it keeps its place among those of the new instant. */
  postpone(event: SimulatedEvent, time: number, action: () => void): void {
    event.time = time;
    event.action = action;
    this.push(event);
  }

  cancel(event: SimulatedEvent): void {
    event.action = null;
  }

  /** Ends the present run before its time: after the event that runs now, or is about to. */
  halt(): void {
    this.#isHalted = true;
  }

  /** Runs all events up to `until`. Rejects with what an event throws. */
  run(until: number): Promise<void> {
    return new Promise((resolve, reject) => {
      // Called out of a microtask, nextTick calls back when no microtask is left at all.
      const onDrained = (): void => process.nextTick(step);
      const next = (): SimulatedEvent | null => (this.#isHalted ? null : this.pop(until));
      const step = (): void => {
        try {
          for (let event = next(); event !== null; event = next()) {
            this.#fire(event);
            if (!this.needsDrain) continue;
            this.needsDrain = false;
            queueMicrotask(onDrained);
            return;
          }
          if (!this.#isHalted) this.now = until;
          this.#isHalted = false;
          resolve();
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      };
      step();
    });
  }

  /** Puts an event that was taken out behind all others of its instant. */
  protected putLast(event: SimulatedEvent): void {
    event.sequence = this.#next();
    this.push(event);
  }

  #next(): number {
    this.#sequence += 1;
    return this.#sequence;
  }

  #fire(event: SimulatedEvent): void {
    const { action } = event;
    if (action === null) return;
    this.now = event.time;
    this.events += 1;
    event.action = null;
    action();
  }

  protected push(event: SimulatedEvent): void {
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

  /** The event to run next, up to `until`; taken out. */
  protected pop(until: number): SimulatedEvent | null {
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
