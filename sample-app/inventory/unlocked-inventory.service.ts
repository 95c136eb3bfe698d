import { Injectable } from '@nestjs/common';

import {
  InventoryService,
  nameOf,
  pack,
  stockAfter,
  type Reservation,
} from './inventory.service.js';

/**
 * Shows how it goes wrong: the same steps without a lock and a token. Two calls read the same
 * stock, and both sell it. Used only with `LOCKS=off`, for
 * `npm run demo:contention -- --no-lock`.
 */
@Injectable()
export class UnlockedInventoryService extends InventoryService {
  override async reserve(sku: string, quantity: number): Promise<Reservation> {
    const before = await this.store.peek(nameOf(sku));
    const stock = stockAfter(sku, before, quantity);
    await pack();
    await this.store.overwrite(nameOf(sku), stock);
    return { sku, quantity, stock, fencingToken: 0 };
  }

  override async setStock(sku: string, stock: number): Promise<void> {
    await this.store.overwrite(nameOf(sku), stock);
  }
}
