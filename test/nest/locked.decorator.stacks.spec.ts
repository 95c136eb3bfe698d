// What a developer sees in a log: the stack of an error leads to the line of the application that
// called, within the ten lines that Node shows.
import 'reflect-metadata';

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Locked, LockReentryError, RedlockService } from 'nestjs-locked';

import { startModule } from './support/applications.js';
import { rejection } from './support/events.js';

@Injectable()
class Stock {
  @Locked('stock', { wait: 0 })
  async sell(meanwhile?: () => Promise<unknown>): Promise<void> {
    await meanwhile?.();
  }

  @Locked('stock', { wait: 0 })
  async *pieces(): AsyncGenerator<number> {
    yield await Promise.resolve(1);
  }

  @Locked((names: string | string[]) => names)
  async count(names: string | string[]): Promise<number> {
    return Promise.resolve(names.length);
  }
}

// Jest shows a hundred.
const { stackTraceLimit } = Error;
beforeEach(() => {
  Error.stackTraceLimit = 10;
});
afterEach(() => {
  Error.stackTraceLimit = stackTraceLimit;
});

async function stackOf(call: () => Promise<unknown>): Promise<string> {
  const serveCustomer = async (): Promise<void> => {
    await call();
  };
  const error = await rejection(serveCustomer());
  return String((error as Error).stack);
}

describe('the stack of an error shows who called', () => {
  it('a method that the same call holds already', async () => {
    const stock = (await startModule({ providers: [Stock] })).get(Stock);
    const sellAgain = async (): Promise<void> => {
      await stock.sell();
    };

    const error = await rejection(stock.sell(sellAgain));

    expect(error).toBeInstanceOf(LockReentryError);
    expect((error as Error).stack).toMatch(/^LockReentryError: Stock\.sell[^]* at sellAgain /);
  });

  it('a generator whose lock is taken', async () => {
    const module = await startModule({ providers: [Stock] });
    await using lock = await module.get(RedlockService).acquire('stock');

    const stack = await stackOf(() => module.get(Stock).pieces().next());

    expect(stack).toMatch(/^LockTakenError: [^]* at (async )?serveCustomer /);
    expect(lock.isValid).toBe(true);
  });

  it.each([
    ['no name', ''],
    ['a reserved name', 'redlock:stock'],
    ['a name that is too long', 'x'.repeat(600)],
    ['a name made of an object', '[object Object]'],
  ])('a method whose resource function then gave %s', async (_what, name) => {
    const stock = (await startModule({ providers: [Stock] })).get(Stock);

    const stack = await stackOf(() => stock.count(name));

    expect(stack).toMatch(/^(Type|Range)Error: .* result of Stock\.count's resource function/);
    expect(stack).toMatch(/ at (async )?serveCustomer /);
  });

  it('but not a method whose resource function gave a list that throws: that shows its own', async () => {
    const stock = (await startModule({ providers: [Stock] })).get(Stock);
    const load = (): never => {
      throw new Error('not loaded');
    };
    const failing = (throwing: () => never) => new Proxy([''], { get: throwing });
    const throwText = (): never => {
      // eslint-disable-next-line @typescript-eslint/only-throw-error -- as foreign code may do
      throw 'not loaded';
    };

    expect(await stackOf(() => stock.count(failing(load)))).toMatch(
      /^Error: not loaded\n +at .*load /,
    );
    expect(await rejection(stock.count(failing(throwText)))).toBe('not loaded');
  });

  it('a method of an application that is shutting down', async () => {
    const module = await startModule({ providers: [Stock] });
    const stock = module.get(Stock);
    await module.close();

    const stack = await stackOf(() => stock.sell());

    expect(stack).toMatch(/^RedlockClosedError: [^]* at (async )?serveCustomer /);
  });
});
