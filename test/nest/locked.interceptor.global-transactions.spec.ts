// Where Nest puts a global interceptor that opens a transaction: inside the lock or around it.
import { describe, expect, it } from '@jest/globals';
import { Controller, Module, Post, type ModuleMetadata } from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { Locked, RedlockModule } from 'nestjs-locked';

import { startPlainServer, threeNodes } from './support/applications.js';
import { get } from './support/requests.js';
import { journal, Transaction } from './support/interceptors.js';

describe('a transaction that a global interceptor opens around a @Locked handler', () => {
  const provider = { provide: APP_INTERCEPTOR, useClass: Transaction };
  @Module({ providers: [provider] })
  class Transactions {}

  @Controller()
  class Orders {
    @Post()
    @Locked('order:7')
    async pay(): Promise<void> {}
  }

  /** What the transaction saw, in an application of this root module. */
  async function seenIn(root: ModuleMetadata, isBoundByHand = false): Promise<readonly string[]> {
    journal.length = 0;
    const { url } = await startPlainServer(
      { controllers: [Orders], ...root },
      {
        configure: (application) => {
          if (isBoundByHand) application.useGlobalInterceptors(application.get(Transaction));
        },
      },
    );
    await get(url, '/', { method: 'POST' });
    return journal;
  }

  it('commits inside the lock where its module is imported after RedlockModule', async () => {
    const imports = [RedlockModule.forRoot(threeNodes()), Transactions];

    expect(await seenIn({ imports })).toEqual(['begin held', 'commit held']);
  });

  it('commits inside the lock where useGlobalInterceptors binds it', async () => {
    const root = { imports: [RedlockModule.forRoot(threeNodes())], providers: [Transaction] };

    expect(await seenIn(root, true)).toEqual(['begin held', 'commit held']);
  });

  it.each<[string, () => ModuleMetadata]>([
    [
      'the root module provides it',
      () => ({ imports: [RedlockModule.forRoot(threeNodes())], providers: [provider] }),
    ],
    [
      'its module is imported before RedlockModule',
      () => ({ imports: [Transactions, RedlockModule.forRoot(threeNodes())] }),
    ],
  ])('commits after the release where %s', async (_where, root) => {
    expect(await seenIn(root())).toEqual(['begin free', 'commit free']);
  });
});
