// Who waits for what in this process. One FIFO queue per resource; only a queue's head asks the
// nodes, so that the callers of one process never vote each other down. PROTOCOL.md section 10.
import type { Environment, TimerHandle } from './environment.js';
import type { Milliseconds } from './units.js';

/** One call that wants some resources. It sleeps until woken, interrupted, or out of patience. */
export class Waiter {
  readonly resources: readonly string[];
  readonly #environment: Environment;
  #interruption: { readonly reason: unknown } | null = null;
  #isWoken = false;
  #endPause: (() => void) | null = null;
  #timer: TimerHandle = null;

  constructor(environment: Environment, resources: readonly string[]) {
    this.#environment = environment;
    this.resources = resources;
  }

  /** Called when the waiter is interrupted while it does something else than pausing. */
  onInterrupted: () => void = () => undefined;

  /** Resolves after `delay` ms, or sooner when woken; at once when woken since the last pause. */
  async pause(delay: Milliseconds): Promise<void> {
    this.throwIfInterrupted();
    if (!this.#isWoken) {
      await new Promise<void>((resolve) => {
        this.#endPause = resolve;
        this.#timer = this.#environment.startTimer(delay, resolve, true);
      });
      this.#environment.stopTimer(this.#timer);
      this.#endPause = null;
    }
    this.#isWoken = false;
    this.throwIfInterrupted();
  }

  /** Ends the pause, or makes the next one short: a wake-up is never lost. */
  wake(): void {
    this.#isWoken = true;
    this.#endPause?.();
  }

  /** Makes the waiter give up with `reason`: its caller's abort, or a shutdown. */
  interrupt(reason: unknown): void {
    if (this.#interruption !== null) return;
    this.#interruption = { reason };
    this.#endPause?.();
    this.onInterrupted();
  }

  throwIfInterrupted(): void {
    if (this.#interruption !== null) throw this.#interruption.reason;
  }
}

/** The queues of one process. */
export class WaitingRoom {
  readonly #queues = new Map<string, Waiter[]>();
  readonly #waiters = new Set<Waiter>();

  /** How many calls wait or try. */
  get size(): number {
    return this.#waiters.size;
  }

  /** Queues on all resources in one step, so that two calls can never wait for each other. */
  enter(waiter: Waiter): void {
    this.#waiters.add(waiter);
    for (const resource of waiter.resources) {
      const queue = this.#queues.get(resource);
      if (queue === undefined) this.#queues.set(resource, [waiter]);
      else queue.push(waiter);
    }
  }

  /** Whether it is the waiter's turn: it heads the queue of every resource that it wants. */
  isFirst(waiter: Waiter): boolean {
    return waiter.resources.every((resource) => this.#queues.get(resource)?.[0] === waiter);
  }

  /** Leaves all queues and wakes those whose turn it is now. */
  leave(waiter: Waiter): void {
    this.#waiters.delete(waiter);
    for (const resource of waiter.resources) {
      const queue = this.#queues.get(resource) ?? [];
      const place = queue.indexOf(waiter);
      if (place >= 0) queue.splice(place, 1);
      if (queue.length === 0) this.#queues.delete(resource);
      else if (place === 0) this.#wakeHead(queue);
    }
  }

  /** Wakes those whose turn it is: a lock of this process on these resources has ended. */
  wake(resources: readonly string[]): void {
    for (const resource of resources) this.#wakeHead(this.#queues.get(resource) ?? []);
  }

  /** Makes everyone give up, each for a reason that names what it waited for. */
  interruptAll(reasonFor: (resources: readonly string[]) => unknown): void {
    for (const waiter of [...this.#waiters]) waiter.interrupt(reasonFor(waiter.resources));
  }

  #wakeHead(queue: readonly Waiter[]): void {
    const head = queue[0];
    if (head !== undefined && this.isFirst(head)) head.wake();
  }
}
