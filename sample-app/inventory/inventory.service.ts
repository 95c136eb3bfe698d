import { setTimeout as sleep } from 'node:timers/promises';

import { ConflictException, Injectable, NotFoundException } from '@nestjs/common';
import { Locked, seconds } from 'nestjs-locked';

import { heldLock } from '../held-lock.js';
import { FencedStore } from '../store/fenced-store.js';

export interface Reservation {
  readonly sku: string;
  readonly quantity: number;
  readonly stock: number;
  readonly fencingToken: number;
}

@Injectable()
export class InventoryService {
  constructor(protected readonly store: FencedStore) {}

  /** Sells: reads, thinks, writes. Across all replicas, one call at a time runs for each sku. */
  @Locked(nameOf, { wait: seconds(10) })
  async reserve(sku: string, quantity: number): Promise<Reservation> {
    const { fencingToken } = heldLock();
    const before = await this.store.read(nameOf(sku), fencingToken);
    const stock = stockAfter(sku, before, quantity);
    await pack();
    // If the lock was lost and a later holder has read since, this token is stale: refused.
    await this.store.write({ [nameOf(sku)]: stock }, fencingToken);
    return { sku, quantity, stock, fencingToken };
  }

  /** Sets the stock under the same lock, so that no running reservation overwrites it. */
  @Locked(nameOf, { wait: seconds(10) })
  async setStock(sku: string, stock: number): Promise<void> {
    await this.store.write({ [nameOf(sku)]: stock }, heldLock().fencingToken);
  }

  async stockOf(sku: string): Promise<number> {
    return known(sku, await this.store.peek(nameOf(sku)));
  }
}

/** The lock's resource, which is also the name in the store. */
export function nameOf(sku: string): string {
  return `sku:${sku}`;
}

/** The stock that a reservation leaves. */
export function stockAfter(sku: string, before: number | null, quantity: number): number {
  const after = known(sku, before) - quantity;
  if (after < 0) throw new ConflictException(`Only ${before} of ${sku} in stock`);
  return after;
}

/** Some work between reading and writing: without a lock, others read the same stock here. */
export async function pack(): Promise<void> {
  await sleep(5);
}

function known(sku: string, stock: number | null): number {
  if (stock === null) throw new NotFoundException(`There is no sku ${sku}`);
  return stock;
}
