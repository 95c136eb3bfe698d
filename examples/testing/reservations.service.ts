import { Injectable } from '@nestjs/common';
import { currentLock, Locked } from 'nestjs-locked';

/** What the tests beside it test: how a method reacts to a lock that is taken, late or lost. */
@Injectable()
export class ReservationsService {
  readonly stored: string[] = [];

  /** Gives up at once where somebody else is at it. */
  @Locked((sku: string) => `sku:${sku}`, { wait: 0, onTaken: () => 'busy' })
  async reserve(sku: string): Promise<string> {
    await Promise.resolve();
    this.stored.push(sku);
    return 'reserved';
  }

  /** Works in steps, and stops at the one before which its lock was lost. */
  @Locked('stocktaking', 6_000)
  async countAll(skus: readonly string[], count: (sku: string) => Promise<void>): Promise<void> {
    for (const sku of skus) {
      currentLock()?.signal.throwIfAborted();
      await count(sku);
      this.stored.push(sku);
    }
  }
}
