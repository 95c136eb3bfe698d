import { ConflictException, Injectable, NotFoundException } from '@nestjs/common';
import { RedlockService } from 'nestjs-locked';

import { FencedStore } from '../store/fenced-store.js';

export interface Transfer {
  readonly from: string;
  readonly to: string;
  readonly amount: number;
}

/** Locks by hand, where a decorator does not fit: RedlockService is injected like any other. */
@Injectable()
export class AccountsService {
  constructor(
    private readonly redlock: RedlockService,
    private readonly store: FencedStore,
  ) {}

  /** Moves money. Both accounts are locked or none: opposite transfers cannot deadlock. */
  async transfer({ from, to, amount }: Transfer): Promise<Record<string, number>> {
    return this.redlock.using([nameOf(from), nameOf(to)], async ({ fencingToken }) => {
      const payer = known(from, await this.store.read(nameOf(from), fencingToken));
      const payee = known(to, await this.store.read(nameOf(to), fencingToken));
      if (payer < amount) throw new ConflictException(`${from} has only ${payer}`);
      const balances = { [nameOf(from)]: payer - amount, [nameOf(to)]: payee + amount };
      // Both in one write: a lost lock cannot leave one half of it.
      await this.store.write(balances, fencingToken);
      return balances;
    });
  }

  async balanceOf(account: string): Promise<number> {
    return known(account, await this.store.peek(nameOf(account)));
  }
}

function nameOf(account: string): string {
  return `account:${account}`;
}

function known(account: string, balance: number | null): number {
  if (balance === null) throw new NotFoundException(`There is no account ${account}`);
  return balance;
}
