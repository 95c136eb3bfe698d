// One listener for all calls that wait with the same signal, such as that of an application's
// shutdown: Node 20 takes more than ten of them for a leak, and warns.
import type { Waiter } from './waiter.js';

const listeners = new WeakMap<AbortSignal, AbortListener>();

class AbortListener {
  readonly waiters = new Set<Waiter>();

  constructor(readonly signal: AbortSignal) {}

  readonly onAbort = (): void => {
    for (const waiter of this.waiters) waiter.interrupt(this.signal.reason);
  };
}

/** Interrupts `waiter` with the reason of `signal` when that aborts. */
export function interruptOnAbort(signal: AbortSignal, waiter: Waiter): void {
  let listener = listeners.get(signal);
  if (listener === undefined) {
    listener = new AbortListener(signal);
    listeners.set(signal, listener);
    signal.addEventListener('abort', listener.onAbort);
  }
  listener.waiters.add(waiter);
}

/** Ends {@link interruptOnAbort}; nothing of it is left on the signal. */
export function ignoreAbort(signal: AbortSignal, waiter: Waiter): void {
  const listener = listeners.get(signal);
  if (!listener?.waiters.delete(waiter) || listener.waiters.size > 0) return;
  listeners.delete(signal);
  signal.removeEventListener('abort', listener.onAbort);
}
