// One lock as a worker of a torture run holds it: what it sees of it goes into the history.
import type { Lock, Milliseconds } from 'nestjs-locked';

import { instantNow, type HistoryWriter } from './history.js';

/** A lock, and the record of what it said. */
export class HeldLock {
  readonly lock: Lock;
  /** Names it over all workers. */
  readonly name: string;
  readonly #history: HistoryWriter;
  #wasSeenLost = false;

  constructor(lock: Lock, name: string, calledAt: Milliseconds, history: HistoryWriter) {
    this.lock = lock;
    this.name = name;
    this.#history = history;
    const { resources, fencingToken: token } = lock;
    history.write({ kind: 'grant', lock: name, resources, token, calledAt, at: instantNow() });
    this.isHeld();
  }

  /** Asks the lock, and notes the answer. */
  isHeld(): boolean {
    const at = instantNow();
    const { remaining } = this.lock;
    this.#note(remaining > 0, at);
    if (remaining === 0) return false;
    const promisedUntil = at + remaining;
    this.#history.write({ kind: 'held', lock: this.name, at, promisedUntil });
    return true;
  }

  /** Claims the lock to the last moment: asks without a pause until it is held no more. */
  outstay(): void {
    let at = instantNow();
    let seenHeldAt = 0;
    // A lock that never ends is for the checks to find, not for this process to wait for.
    const giveUpAt = at + this.lock.remaining + 1_000;
    while (this.lock.isValid && at < giveUpAt) {
      seenHeldAt = at;
      at = instantNow();
    }
    this.#note(this.lock.isValid, at);
    const seen = { lock: this.name, at: seenHeldAt, promisedUntil: seenHeldAt };
    if (seenHeldAt > 0) this.#history.write({ kind: 'held', ...seen });
  }

  async extend(ttl: Milliseconds): Promise<void> {
    await this.lock.extend(ttl);
    this.isHeld();
  }

  /** The worker lets go: call it before the release. */
  end(): void {
    this.#history.write({ kind: 'ended', lock: this.name, at: instantNow() });
  }

  #note(isHeld: boolean, at: Milliseconds): void {
    if (isHeld && this.#wasSeenLost) {
      this.#history.write({ kind: 'revived', lock: this.name, at });
    }
    if (isHeld || this.#wasSeenLost) return;
    this.#wasSeenLost = true;
    this.#history.write({ kind: 'lost', lock: this.name, reason: this.#reason() });
  }

  #reason(): string {
    try {
      this.lock.assertHeld();
      return 'none';
    } catch (error) {
      return (error as { reason?: string }).reason ?? String(error);
    }
  }
}
