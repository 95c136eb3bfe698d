// What a @Locked method returned, and goes on after the call: what all kinds of it have in common.
import { getEventListeners } from 'node:events';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';

import { describe, expect, it } from '@jest/globals';
import { Injectable, StreamableFile } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { BehaviorSubject, lastValueFrom, Observable, of } from 'rxjs';
import type { Observable as ObservableType } from 'rxjs';

import { dropUnread } from '../../lib/nest/locked-result.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { startModule } from './support/applications.js';
import { rejection, turn } from './support/events.js';
import { source, Feeds, start, subscribe } from './support/feeds.js';

/** Gives nothing, and ends with the source. */
async function* untilComplete(): AsyncGenerator<never> {
  yield* [];
  await lastValueFrom(source.values, { defaultValue: 0 });
}

describe('a @Locked method whose stand-in cannot give what is declared', () => {
  type Feed = Observable<number>;

  @Injectable()
  class Declared {
    @Locked('declared')
    inferred() {
      return of(1);
    }

    @Locked('declared')
    aliased(): Feed {
      return of(1);
    }

    @Locked('declared')
    imported(): ObservableType<number> {
      return of(1);
    }

    @Locked('declared')
    generator(): AsyncGenerator<number> {
      return this.iterate();
    }

    @Locked('declared')
    iterable(): AsyncIterable<number> {
      return this.iterate();
    }

    @Locked('declared')
    readable(): Readable {
      return Readable.from(['one']);
    }

    @Locked('declared')
    file(): StreamableFile {
      return new StreamableFile(Readable.from(['one']));
    }

    @Locked('declared')
    subject(): BehaviorSubject<number> {
      return new BehaviorSubject(1);
    }

    private async *iterate(): AsyncGenerator<number> {
      yield 1;
    }
  }

  async function resultOf(kind: keyof Declared): Promise<unknown[]> {
    const module = await startModule({ providers: [Declared] }, { shutdownTimeout: 0 });
    // In an array: who awaits it gets the result itself.
    return [module.get(Declared)[kind]()];
  }

  it.each([
    'inferred',
    'aliased',
    'imported',
    'generator',
    'iterable',
    'readable',
    'file',
  ] as const)('gives a Promise of it: %s', async (kind) => {
    const [result] = await resultOf(kind);

    expect(result).toBeInstanceOf(Promise);
    await result;
  });

  it('gives a plain Observable for a Subject', async () => {
    const [result] = await resultOf('subject');

    expect(result).toBeInstanceOf(Observable);
    expect(result).not.toBeInstanceOf(BehaviorSubject);
  });
});

describe('the end of what a @Locked method returned', () => {
  const defaultValue = 'end';
  const drain = async (steps: AsyncIterable<never>): Promise<void> => {
    for await (const value of steps) expect(value).toBeUndefined();
  };
  const kinds: [string, (feeds: Feeds) => Promise<unknown>][] = [
    ['an Observable', (feeds) => lastValueFrom(feeds.observe(), { defaultValue })],
    [
      'an Observable by a promise',
      async (feeds) => lastValueFrom(await feeds.observeLater(), { defaultValue }),
    ],
    ['an async generator', (feeds) => drain(feeds.generateUntilComplete())],
    ['an async iterable by a promise', async (feeds) => drain(await feeds.attach(untilComplete()))],
  ];

  it.each(kinds)('comes when its lock is released: %s', async (_kind, consume) => {
    // Time stands still, so that nobody gives the nodes up.
    const { feeds, nodes, releases } = await start({ environment: new SimulatedEnvironment() });
    let hasEnded = false;
    const end = consume(feeds).then(() => (hasEnded = true));
    while (!source.values.observed) await turn();

    for (const node of nodes) node.hang();
    source.values.complete();
    while (releases() < nodes.length) await turn();
    await turn();
    const hadEnded = hasEnded;
    for (const node of nodes) node.heal();
    await end;

    expect(hadEnded).toBe(false);
  });

  it.each(kinds)('is a LockLostError where its time ran out unnoticed: %s', async (_, consume) => {
    const environment = new SimulatedEnvironment();
    const { feeds } = await start({ environment });
    const end = rejection(consume(feeds));
    while (!source.values.observed) await turn();

    environment.block(1_000);
    source.values.complete();

    expect(await end).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
  });

  it.each(kinds)('is one where it outlived the lock that it joined: %s', async (_, consume) => {
    const { feeds, redlock } = await start({ reentrant: true });
    let end = Promise.resolve<unknown>(undefined);
    await redlock.using('feed', async () => {
      end = rejection(consume(feeds));
      while (!source.values.observed) await turn();
    });

    source.values.complete();

    expect(await end).toMatchObject({ code: 'LOCK_LOST', reason: 'released' });
  });
});

describe('what a @Locked method returned after the loss of its lock', () => {
  it.each<[string, (feeds: Feeds) => Promise<unknown>]>([
    ['an Observable', async (feeds) => lastValueFrom(await feeds.attachTooLate(of(1)))],
    ['an iterable', async (feeds) => (await feeds.attachTooLate(untilComplete())).next()],
    ['a stream', async (feeds) => text(await feeds.attachTooLate(new Readable({ read() {} })))],
  ])('fails: %s', async (_kind, consume) => {
    const { feeds, redlock, loseLock } = await start();
    const end = rejection(consume(feeds));
    while ((await redlock.status()).held === 0) await turn();

    loseLock();

    expect(await end).toMatchObject({ code: 'LOCK_LOST' });
  });
});

describe('a lock that is held for long', () => {
  const listeners = ({ lock }: Feeds) =>
    lock ? getEventListeners(lock.signal, 'abort').length : 0;

  it('gathers no listeners with the steps of an iterable', async () => {
    const { feeds } = await start();
    const generator = feeds.generate(3);
    await generator.next();
    const before = listeners(feeds);

    await generator.next();
    await generator.next();

    expect(listeners(feeds)).toBe(before);
  });

  it.each<[string, (feeds: Feeds) => AsyncIterable<unknown> | Promise<AsyncIterable<unknown>>]>([
    ['read to their end', (feeds) => feeds.generateOrSkip()],
    ['as web streams', (feeds) => feeds.web()],
    ['as streams of Node', (feeds) => feeds.read(Readable.from([1, 2]))],
  ])('gathers no listeners with the iterables that join it: %s', async (_how, iterate) => {
    const { feeds, redlock } = await start({ reentrant: true });

    await redlock.using('feed', async ({ signal }) => {
      for (let round = 0; round < 12; round += 1) {
        for await (const value of await iterate(feeds)) expect(value).toBeDefined();
      }

      expect(getEventListeners(signal, 'abort')).toEqual([]);
    });
  });

  it('gathers no listeners with the Observables that join it', async () => {
    const { feeds, redlock } = await start({ reentrant: true });

    await redlock.using('feed', async ({ signal }) => {
      expect(await lastValueFrom(feeds.observeAll([1, 2]))).toBe(2);

      expect(getEventListeners(signal, 'abort')).toEqual([]);
    });
  });

  it('gathers no listeners with the subscriptions of an Observable', async () => {
    const { feeds } = await start();
    const observable = await feeds.observeLater();
    subscribe(observable);
    const before = listeners(feeds);

    subscribe(observable).subscription.unsubscribe();

    expect(listeners(feeds)).toBe(before);
  });

  it('has one listener for all that subscribe at the same time, and tells each', async () => {
    const { feeds, loseLock } = await start();
    const observable = await feeds.observeLater();
    const { end } = subscribe(observable);
    const before = listeners(feeds);

    const others = Array.from({ length: 11 }, () => subscribe(observable));
    const during = listeners(feeds);
    loseLock();

    const ends = await Promise.all([end, ...others.map((other) => other.end)]);
    expect(during).toBe(before);
    expect(ends).toEqual(ends.map(() => expect.objectContaining({ code: 'LOCK_LOST' })));
  });

  it('has one listener for all iterables and Observables that join it, until these are dropped', async () => {
    const { feeds, redlock } = await start({ reentrant: true });

    await redlock.using('feed', async ({ signal }) => {
      const unread: unknown[] = [];
      for (let round = 0; round < 6; round += 1) {
        unread.push(await feeds.observeLater(), await feeds.count());
      }

      expect(getEventListeners(signal, 'abort')).toHaveLength(1);
      for (const result of unread) dropUnread(result);
      await turn();
      expect(getEventListeners(signal, 'abort')).toEqual([]);
    });
  });

  it('has one listener for all steps that are under way at the same time', async () => {
    const { feeds, loseLock } = await start();
    const hanging = (await feeds.hang())[Symbol.asyncIterator]();
    const before = listeners(feeds);

    const steps = Array.from({ length: 12 }, () => rejection(hanging.next()));

    const during = listeners(feeds);
    loseLock();

    const ends = await Promise.all(steps);
    expect(during).toBe(before);
    expect(ends).toEqual(ends.map(() => expect.objectContaining({ code: 'LOCK_LOST' })));
  });
});

describe('what nobody goes on with', () => {
  it.each<[string, (feeds: Feeds) => Promise<unknown>]>([
    ['a generator after one step', (feeds) => feeds.generate(9).next()],
    ['an iterable without any step', (feeds) => feeds.count()],
    ['an Observable without a subscriber', (feeds) => feeds.observeLater()],
  ])('counts as held no longer when its lock is lost, and is released: %s', async (_, call) => {
    const { feeds, redlock, loseLock, releases } = await start();
    await call(feeds);
    const held = async (): Promise<number> => (await redlock.status()).held;
    expect(await held()).toBe(1);

    loseLock();
    while ((await held()) > 0 || releases() === 0) await turn();

    expect(feeds.finished).toBe(feeds.runs);
  });
});
