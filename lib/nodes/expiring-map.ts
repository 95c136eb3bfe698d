import type { Microseconds } from '../core/units.js';

interface Entry<Value> {
  readonly value: Value;
  readonly expiresAt: Microseconds;
}

/**
 * A map whose entries expire. Each `set` looks at two entries and drops what has ended, so that
 * garbage never outnumbers the live entries by much, without timers or full scans.
 */
export class ExpiringMap<Value> {
  readonly #entries = new Map<string, Entry<Value>>();
  #sweep: Iterator<[string, Entry<Value>]> = this.#entries.entries();

  /** How many entries are kept, including ended ones that were not swept yet. */
  get size(): number {
    return this.#entries.size;
  }

  get(key: string, now: Microseconds): Value | undefined {
    const entry = this.#entries.get(key);
    return entry !== undefined && entry.expiresAt > now ? entry.value : undefined;
  }

  /** How much longer an entry lives, in µs; 0 where there is none. */
  remaining(key: string, now: Microseconds): Microseconds {
    return Math.max(0, (this.#entries.get(key)?.expiresAt ?? now) - now);
  }

  set(key: string, value: Value, expiresAt: Microseconds, now: Microseconds): void {
    this.#entries.set(key, { value, expiresAt });
    this.#sweepOne(now);
    this.#sweepOne(now);
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }

  #sweepOne(now: Microseconds): void {
    const next = this.#sweep.next();
    if (next.done === true) {
      this.#sweep = this.#entries.entries();
      return;
    }
    const [key, { expiresAt }] = next.value;
    if (expiresAt <= now) this.#entries.delete(key);
  }
}
