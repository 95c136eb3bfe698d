// Iterables written by hand, which keep to less than a generator does.
import { describe, expect, it } from '@jest/globals';

import { blockFor } from '../support/block-for.js';
import { eventually } from '../support/eventually.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { rejection } from './support/events.js';
import { start } from './support/feeds.js';

const failure = new Error('could not close the cursor');

describe('an iterable that a @Locked method returned', () => {
  it.each<[string, () => unknown]>([
    ['rejects', () => Promise.reject(failure)],
    [
      'throws at once',
      () => {
        throw failure;
      },
    ],
    ['gives no promise', () => ({ done: true, value: undefined })],
  ])('is released after the loss of its lock also where its return %s', async (_how, end) => {
    const { feeds, loseLock, releases } = await start();
    const steps = { next: async () => ({ done: false, value: 1 }), return: end };
    const feed = await feeds.attach({ [Symbol.asyncIterator]: () => steps });
    await feed[Symbol.asyncIterator]().next();

    loseLock();

    await eventually(() => releases() > 0);
  });

  it('is released also where a step fails after the lock has ended, before anybody was told', async () => {
    const { feeds, releases } = await start({ ttl: 100 });
    const next = async (): Promise<never> => {
      blockFor(110);
      throw failure;
    };
    const feed = await feeds.attach({ [Symbol.asyncIterator]: () => ({ next }) });

    const error = await rejection(feed[Symbol.asyncIterator]().next());

    expect(error).toBe(failure);
    await eventually(() => releases() > 0);
  });

  it('tells no loss to who leaves it, and is released, where its return outlasts the lock', async () => {
    const environment = new SimulatedEnvironment();
    const { feeds, releases } = await start({ environment });
    const steps = {
      next: async () => ({ done: false, value: 1 }),
      return: async () => {
        environment.block(1_000);
        return { done: true, value: 'closed' };
      },
    };
    const feed = await feeds.attach({ [Symbol.asyncIterator]: () => steps });

    for await (const value of feed) if (value === 1) break;

    await eventually(() => releases() > 0);
  });

  it('may give its steps at once, as an array does', async () => {
    const { feeds, isFree } = await start();
    const row = ['row'];
    const feed = await feeds.attach({
      [Symbol.asyncIterator]: () => row[Symbol.iterator]() as object as AsyncIterator<string>,
    });
    const rows: string[] = [];

    for await (const each of feed) rows.push(each);

    expect(rows).toEqual(row);
    expect(await isFree()).toBe(true);
  });

  it('gives back what it is left with where it has no return', async () => {
    const { feeds, isFree } = await start();
    const feed = (await feeds.count()) as AsyncGenerator<number>;
    await feed.next();

    expect(await feed.return('left')).toEqual({ done: true, value: 'left' });
    expect(await isFree()).toBe(true);
  });
});
