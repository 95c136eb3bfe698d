// Async generators and iterables stay locked until they end, fail or are dropped.
import { EventEmitter, on } from 'node:events';

import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { currentLock, Locked, LockTakenError, RedlockService } from 'nestjs-locked';

import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { startModule } from './support/applications.js';
import { aborted, Gate, rejection, turn } from './support/events.js';
import { start } from './support/feeds.js';

describe('a @Locked async generator', () => {
  it('acquires on its first step and releases when it ends', async () => {
    const { feeds, redlock, isFree } = await start();
    const generator = feeds.generate(2);
    expect(await isFree()).toBe(true);

    const steps = [await generator.next()];
    expect(await redlock.tryAcquire('feed')).toBeNull();
    steps.push(await generator.next(), await generator.next());

    expect(steps).toEqual([
      { done: false, value: 0 },
      { done: false, value: 1 },
      { done: true, value: 'ended' },
    ]);
    expect(await isFree()).toBe(true);
  });

  it('is locked for itself alone: the loop over it is outside, and a lock there waits', async () => {
    const { feeds, redlock } = await start();
    const outside: unknown[] = [];

    for await (const value of feeds.generate(1)) {
      const refused = await rejection(redlock.acquire('feed', 1_000, { wait: 5 }));
      outside.push(value, currentLock(), refused);
    }

    expect(outside).toEqual([0, undefined, expect.any(LockTakenError)]);
  });

  it('releases when the consumer breaks off, and runs the finally of the generator', async () => {
    const { feeds, isFree } = await start();

    for await (const value of feeds.generate(9)) if (value === 1) break;

    expect([feeds.finished, await isFree()]).toEqual([1, true]);
  });

  it('releases when it throws, with the very error, and when it is thrown into', async () => {
    const { feeds, isFree } = await start();
    const failure = new Error('thrown in');
    const consume = async (): Promise<void> => {
      for await (const value of feeds.generate(9)) expect(value).toBeLessThan(3);
    };
    const generator = feeds.generate(9);

    const own = await rejection(consume());
    await generator.next();
    const thrownIn = await rejection(generator.throw(failure));

    expect(String(own)).toBe('Error: at three');
    expect(thrownIn).toBe(failure);
    expect([feeds.finished, await isFree()]).toEqual([2, true]);
  });

  it('with two decorators is still one, under both locks', async () => {
    @Injectable()
    class Twice {
      @Locked('outer')
      @Locked('inner')
      async *generate(): AsyncGenerator<boolean> {
        yield currentLock('outer')?.isValid === true && currentLock('inner')?.isValid === true;
      }
    }
    const module = await startModule({ providers: [Twice] });

    const values = [];
    for await (const value of module.get(Twice).generate()) values.push(value);

    expect(values).toEqual([true]);
    expect((await module.get(RedlockService).status()).held).toBe(0);
  });

  it('passes values in, and what it is left with', async () => {
    const { feeds, isFree } = await start();
    const generator = feeds.generate(9);
    await generator.next();

    expect(await generator.next('stop')).toEqual({ done: true, value: 'stopped' });
    const left = feeds.generate(9);
    await left.next();
    expect(await left.return('left')).toEqual({ done: true, value: 'left' });
    expect(await isFree()).toBe(true);
  });

  it('by a promise: releases when `await using` has left it, as a generator of Node 24', async () => {
    const { feeds, isFree } = await start();

    {
      await using numbers = (await feeds.count()) as AsyncGenerator<number>;
      expect([await numbers.next(), await isFree()]).toEqual([{ done: false, value: 1 }, false]);
    }

    expect(await isFree()).toBe(true);
  });

  it('ends an iterable that knows neither return nor throw', async () => {
    const { feeds, isFree } = await start();
    const failure = new Error('thrown in');

    for await (const value of await feeds.count()) if (value === 2) break;
    const thrownIn = (await feeds.count()) as AsyncGenerator<number>;
    await thrownIn.next();

    expect(await rejection(thrownIn.throw(failure))).toBe(failure);
    expect(await isFree()).toBe(true);
    // It would go on, without the lock.
    expect(await thrownIn.next()).toEqual({ done: true, value: undefined });
  });

  it('catches what is thrown into it, and goes on under its lock', async () => {
    const { feeds, isFree } = await start();
    const catching = async function* (): AsyncGenerator {
      try {
        yield 'first';
      } catch (error) {
        yield error;
      }
    };
    const steps = await feeds.attach(catching());
    await steps.next();

    expect(await steps.throw('thrown in')).toEqual({ done: false, value: 'thrown in' });
    expect(await isFree()).toBe(false);
    expect(await steps.next()).toEqual({ done: true, value: undefined });
  });

  it('thrown into, awaits the return of an iterable that knows no throw', async () => {
    const { feeds, isFree } = await start();
    const [asked, ended] = [new Gate(), new Gate()];
    const steps = {
      next: async () => ({ done: false, value: 1 }),
      async return() {
        asked.open();
        await ended.passed;
        return { done: true, value: 1 };
      },
    };
    const generator = (await feeds.attach({
      [Symbol.asyncIterator]: () => steps,
    })) as unknown as AsyncGenerator<number>;
    const failure = new Error('thrown in');

    const thrownIn = rejection(generator.throw(failure));
    await asked.passed;
    await turn();
    expect(await isFree()).toBe(false);
    ended.open();

    expect(await thrownIn).toBe(failure);
    expect(await isFree()).toBe(true);
  });

  it('never runs when nobody steps it', async () => {
    const { feeds, isFree } = await start();

    const end = await feeds.generate(9).return('none');

    expect(end).toEqual({ done: true, value: 'none' });
    expect([feeds.runs, await isFree()]).toEqual([0, true]);
  });

  it('skips or falls back while others hold the lock', async () => {
    const { feeds, redlock } = await start();
    await using lock = await redlock.acquire('feed', 10_000);

    expect(lock.isValid).toBe(true);
    expect(await feeds.generateOrSkip().next()).toEqual({ done: true, value: undefined });
    expect(await feeds.generateOrElse().next()).toEqual({ done: true, value: [7] });
    const instead = feeds.generateInstead();
    expect([await instead.next(), await instead.next()]).toEqual([
      { done: false, value: 7 },
      { done: true, value: 8 },
    ]);
    expect(await rejection(feeds.generate(1).next())).toBeInstanceOf(LockTakenError);
  });

  it('skips for its own lock alone, and fails with the error of another', async () => {
    const { feeds, isFree } = await start();
    const feed = feeds.generateOfTaken();

    expect(await feed.next()).toEqual({ done: false, value: 1 });
    expect(await rejection(feed.next())).toMatchObject({ resources: ['other'] });
    expect(await isFree()).toBe(true);
  });

  it('releases when a feed is left while it waits for its next value', async () => {
    const { feeds, isFree, freed } = await start();
    const emitter = new EventEmitter();
    const feed = (await feeds.attach(on(emitter, 'news')))[Symbol.asyncIterator]();
    const step = feed.next();
    expect(await isFree()).toBe(false);

    await feed.return?.();

    expect(await step).toEqual({ done: true, value: undefined });
    expect(emitter.listenerCount('news')).toBe(0);
    await freed();
  });

  it('releases when a feed is left before its first step', async () => {
    const { feeds, isFree } = await start();
    const emitter = new EventEmitter();
    const feed = (await feeds.attach(on(emitter, 'news')))[Symbol.asyncIterator]();

    await feed.return?.();

    expect(emitter.listenerCount('news')).toBe(0);
    expect(await isFree()).toBe(true);
  });

  it('releases when the last of several steps is over, whoever left before', async () => {
    const { feeds, isFree, freed } = await start();
    const work = new Gate<IteratorResult<number>>();
    const steps = {
      next: () => work.passed,
      return: async () => ({ done: true as const, value: 0 }),
    };
    const feed = (await feeds.attach({ [Symbol.asyncIterator]: () => steps }))[
      Symbol.asyncIterator
    ]();
    const step = feed.next();

    await feed.return();
    expect(await isFree()).toBe(false);
    work.open({ done: false, value: 1 });

    expect(await step).toEqual({ done: false, value: 1 });
    await freed();
  });

  it('fails with the LockLostError when the lock is lost first, also in a step that hangs', async () => {
    const { feeds, loseLock } = await start();
    const iterator = (await feeds.hang())[Symbol.asyncIterator]();
    const step = rejection(Promise.resolve(iterator.next()));

    loseLock();

    expect(await step).toMatchObject({ code: 'LOCK_LOST' });
  });

  it('keeps the keys of a lost lock until the step that was under way is really over', async () => {
    const { feeds, loseLock, releases } = await start();
    const over = new Gate<IteratorReturnResult<undefined>>();
    const steps = { next: () => over.passed, return: () => over.passed };
    const feed = await feeds.attach({ [Symbol.asyncIterator]: () => steps });
    const step = rejection(feed[Symbol.asyncIterator]().next());

    loseLock();

    expect(await step).toMatchObject({ code: 'LOCK_LOST' });
    await turn();
    expect(releases()).toBe(0);
    over.open({ done: true, value: undefined });
    while (releases() === 0) await turn();
  });

  it('fails in the next step when the lock was lost between two', async () => {
    const { feeds, loseLock } = await start();
    const generator = feeds.generate(9);
    await generator.next();
    loseLock();
    if (feeds.lock !== undefined) await aborted(feeds.lock.signal);

    expect(await rejection(generator.next())).toMatchObject({ code: 'LOCK_LOST' });
    expect(await generator.next()).toEqual({ done: true, value: undefined });
  });

  it('takes no step of an iterable whose lock was lost, also where it would go on', async () => {
    const environment = new SimulatedEnvironment();
    const { feeds } = await start({ environment });
    let taken = 0;
    const next = async () => ({ done: false as const, value: (taken += 1) });
    const iterable = await feeds.attach({ [Symbol.asyncIterator]: () => ({ next }) });
    const steps = iterable[Symbol.asyncIterator]();
    await steps.next();

    environment.block(1_000);

    expect(await rejection(steps.next())).toMatchObject({ code: 'LOCK_LOST' });
    expect(taken).toBe(1);
  });
});
