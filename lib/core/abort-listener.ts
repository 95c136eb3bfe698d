// One listener per signal for all that it interrupts, such as all calls that wait until an
// application shuts down: Node 20 takes more than ten listeners for a leak, and warns.
// eslint-disable-next-line no-restricted-imports -- no time, no randomness
import { addAbortListener } from 'node:events';

/** What can be made to end before its time, and is told why. */
export interface Interruptible {
  interrupt(reason: unknown): void;
}

const listeners = new WeakMap<AbortSignal, AbortListener>();

class AbortListener {
  readonly targets = new Set<Interruptible>();
  readonly onAbort: () => void;

  constructor(signal: AbortSignal) {
    this.onAbort = () => this.#interruptAll(signal.reason);
    // Not `addEventListener`: another listener of the signal could keep the event from it.
    addAbortListener(signal, this.onAbort);
  }

  #interruptAll(reason: unknown): void {
    const failures: unknown[] = [];
    for (const target of this.targets) {
      try {
        target.interrupt(reason);
      } catch (error) {
        failures.push(error);
      }
    }
    // As if each had its own listener: one that throws does not keep the others from being told.
    if (failures.length > 0) throw failures[0];
  }
}

/** Interrupts `target` with the reason of `signal` when that aborts. */
export function interruptOnAbort(signal: AbortSignal, target: Interruptible): void {
  let listener = listeners.get(signal);
  if (listener === undefined) {
    listener = new AbortListener(signal);
    listeners.set(signal, listener);
  }
  listener.targets.add(target);
}

/** Ends {@link interruptOnAbort}; nothing of it is left on the signal. */
export function ignoreAbort(signal: AbortSignal, target: Interruptible): void {
  const listener = listeners.get(signal);
  if (!listener?.targets.delete(target) || listener.targets.size > 0) return;
  listeners.delete(signal);
  // Not by what `addAbortListener` returns: tests may run where Symbol.dispose is missing.
  signal.removeEventListener('abort', listener.onAbort);
}

/** Calls `interrupt` when `signal` aborts, at once if it has already. Returns how to stop that. */
export function whenAborted(signal: AbortSignal, interrupt: (reason: unknown) => void): () => void {
  const target = { interrupt };
  if (signal.aborted) interrupt(signal.reason);
  else interruptOnAbort(signal, target);
  return () => ignoreAbort(signal, target);
}
