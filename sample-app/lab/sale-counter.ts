import { setTimeout as sleep } from 'node:timers/promises';

import { Injectable } from '@nestjs/common';
import { Locked, seconds, type Milliseconds } from 'nestjs-locked';

import { heldLock } from '../held-lock.js';
import { FencedStore } from '../store/fenced-store.js';

/** The lock's resource, which is also the name in the store. */
export const SALE = 'sale';

/** Is told when a buyer's turn, which must not overlap with any other, begins and ends. */
export interface Turn {
  /** @param token fencing token of the lock; null without a lock */
  begin(token: number | null): void;
  end(): void;
}

/** Where a replica sells. */
@Injectable()
export class SaleCounter {
  constructor(private readonly store: FencedStore) {}

  /** Sells one piece; false if none is left. Across all replicas, one call at a time runs. */
  @Locked(SALE, { wait: seconds(3) })
  async sell(section: Milliseconds, turn: Turn): Promise<boolean> {
    const { fencingToken } = heldLock();
    turn.begin(fencingToken);
    try {
      const stock = (await this.store.read(SALE, fencingToken)) ?? 0;
      if (stock < 1) return false;
      await sleep(section);
      await this.store.write({ [SALE]: stock - 1 }, fencingToken);
      return true;
    } finally {
      turn.end();
    }
  }

  /** The same steps without a lock: others read the same stock, and all sell the same piece. */
  async sellUnlocked(section: Milliseconds, turn: Turn): Promise<boolean> {
    turn.begin(null);
    try {
      const stock = (await this.store.peek(SALE)) ?? 0;
      if (stock < 1) return false;
      await sleep(section);
      await this.store.overwrite(SALE, stock - 1);
      return true;
    } finally {
      turn.end();
    }
  }
}
