import { Injectable, NotFoundException, type OnModuleDestroy } from '@nestjs/common';
import { minutes, RedlockService, type Lock, type Milliseconds } from 'nestjs-locked';

import { now } from './clock.js';
import { Feed } from './feed.js';
import { on } from './lock-events.js';

/** What a client is told of a lock that is held for it here. */
export interface HandLock {
  readonly resource: string;
  readonly ownerId: string;
  readonly fencingToken: number;
  /** How long it remains valid, in ms. */
  readonly remaining: Milliseconds;
}

/** What a client asks for. */
export interface HandRequest {
  readonly ttl: Milliseconds;
  readonly wait: Milliseconds;
  /** Extends it until it is released, for two minutes at most. */
  readonly watchdog: boolean;
}

/** Locks that are acquired, extended and released by requests of their own. */
@Injectable()
export class HandLocks implements OnModuleDestroy {
  readonly #locks = new Map<string, Lock>();
  readonly #endListening: readonly (() => void)[];

  constructor(
    private readonly redlock: RedlockService,
    private readonly feed: Feed,
  ) {
    this.#endListening = [on('extend', () => this.#tell()), on('lost', () => this.#tell())];
  }

  /** @throws LockTakenError, NoQuorumError, LockExpiredError */
  async acquire(resource: string, { ttl, ...options }: HandRequest): Promise<HandLock> {
    this.#forgetLost();
    const lock = await this.redlock.acquire(resource, ttl, { ...options, maxHold: minutes(2) });
    this.#locks.set(lock.ownerId, lock);
    this.#tell();
    return describe(lock);
  }

  /** @throws NotFoundException, LockLostError, NoQuorumError */
  async extend(ownerId: string, ttl: Milliseconds): Promise<HandLock> {
    const lock = this.#find(ownerId);
    await lock.extend(ttl);
    return describe(lock);
  }

  /** @throws NotFoundException */
  async release(ownerId: string): Promise<void> {
    const lock = this.#find(ownerId);
    this.#locks.delete(ownerId);
    this.#tell();
    await lock.release();
  }

  async onModuleDestroy(): Promise<void> {
    for (const end of this.#endListening) end();
    await Promise.all([...this.#locks.values()].map((lock) => lock.release()));
  }

  #find(ownerId: string): Lock {
    const lock = this.#locks.get(ownerId);
    if (lock !== undefined) return lock;
    throw new NotFoundException(`No lock of owner ${ownerId} is held here: acquire one first.`);
  }

  /** Shows on the pages what is held here, whatever extended or ended it. */
  #tell(): void {
    const held = [...this.#locks.values()].filter(({ isValid }) => isValid);
    const hands = held.map(({ ownerId, remaining }) => ({ ownerId, remaining, at: now() }));
    this.feed.update({ hands });
  }

  // None lives longer than its ttl or two minutes, so there are never many.
  #forgetLost(): void {
    for (const [ownerId, lock] of this.#locks) if (!lock.isValid) this.#locks.delete(ownerId);
  }
}

function describe({ resources, ownerId, fencingToken, remaining }: Lock): HandLock {
  const [resource = ''] = resources;
  return { resource, ownerId, fencingToken, remaining: Math.floor(remaining) };
}
