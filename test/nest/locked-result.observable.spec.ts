// Methods that return Observables stay locked until those end, fail or are dropped.
import {
  subscribe as subscribeChannel,
  unsubscribe as unsubscribeChannel,
} from 'node:diagnostics_channel';

import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Locked, LockTakenError, RedlockService } from 'nestjs-locked';
import { concat, defer, from, lastValueFrom, mergeAll, take, tap, toArray } from 'rxjs';

import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { startModule } from './support/applications.js';
import { aborted, rejection, turn } from './support/events.js';
import { source, Feeds, start, subscribe, emit } from './support/feeds.js';

describe('a @Locked method that returns an Observable', () => {
  it('acquires on subscription and releases when it completes', async () => {
    const { feeds, redlock, isFree } = await start();
    const observable = feeds.observe();
    expect([feeds.runs, await isFree()]).toEqual([0, true]);

    const { first, end } = subscribe(observable);
    await emit(1);
    expect(await first).toBe(1);
    expect(await redlock.tryAcquire('feed')).toBeNull();
    source.values.complete();

    expect(await end).toBe('complete');
    expect(await isFree()).toBe(true);
  });

  it('releases when it fails, with the very error', async () => {
    const { feeds, isFree } = await start();
    const { end } = subscribe(feeds.observe());
    await emit(1);
    const failure = new Error('feed');

    source.values.error(failure);

    expect(await end).toBe(failure);
    expect(await isFree()).toBe(true);
  });

  it('releases when it is unsubscribed', async () => {
    const { feeds, freed } = await start();
    const { subscription } = subscribe(feeds.observe());
    await emit(1);

    subscription.unsubscribe();

    await freed();
    expect(source.values.observed).toBe(false);
  });

  it('stops waiting when it is unsubscribed, and acquires nothing', async () => {
    const { feeds, redlock, freed } = await start();
    const lock = await redlock.acquire('feed', 10_000);
    const { subscription } = subscribe(feeds.observePatiently());
    while ((await redlock.status()).waiting === 0) await turn();

    subscription.unsubscribe();

    while ((await redlock.status()).waiting > 0) await turn();
    expect(lock.isValid).toBe(true);
    await lock.release();
    await freed();
    expect(feeds.runs).toBe(0);
  });

  it('releases what it got in the moment in which it was unsubscribed', async () => {
    const { feeds, freed } = await start();
    const onAcquired = (): void => subscription.unsubscribe();
    subscribeChannel('nestjs-locked:acquire', onAcquired);
    const { subscription } = subscribe(feeds.observePatiently());
    while (!subscription.closed) await turn();
    unsubscribeChannel('nestjs-locked:acquire', onAcquired);

    await freed();
    expect(feeds.runs).toBe(0);
  });

  it.each([
    ['itself', (feeds: Feeds, all: Iterable<number>) => feeds.observeAll(all)],
    [
      'by a promise',
      (feeds: Feeds, all: Iterable<number>) =>
        defer(() => feeds.attach(from(all))).pipe(mergeAll()),
    ],
  ])('ends a source that emits all at once when nobody wants more: %s', async (_way, observe) => {
    const { feeds, freed } = await start();
    let emitted = 0;
    function* numbers(): Generator<number> {
      while (emitted < 1_000) yield (emitted += 1);
    }

    const taken = await lastValueFrom(observe(feeds, numbers()).pipe(take(3), toArray()));

    await freed();
    expect(taken).toEqual([1, 2, 3]);
    expect(emitted).toBe(3);
  });

  it('runs anew for each subscription, each with a lock of its own', async () => {
    const { feeds } = await start();
    const observable = feeds.observeOrElse();

    const all = concat(observable, observable).pipe(toArray());

    expect(await lastValueFrom(all)).toEqual([1, 1]);
  });

  it('fails with the LockLostError when the lock is lost first', async () => {
    const { feeds, loseLock } = await start();
    const { end } = subscribe(feeds.observe());
    await emit(1);

    loseLock();

    expect(await end).toMatchObject({ code: 'LOCK_LOST' });
    expect(source.values.observed).toBe(false);
  });

  it('skips, falls back or fails while others hold the lock', async () => {
    const { feeds, redlock } = await start();
    await using lock = await redlock.acquire('feed', 10_000);

    expect(lock.isValid).toBe(true);
    expect(await lastValueFrom(feeds.observeOrSkip())).toBeUndefined();
    expect(await lastValueFrom(feeds.observeOrElse().pipe(toArray()))).toEqual([7, 8]);
    expect(await rejection(lastValueFrom(feeds.observe()))).toBeInstanceOf(LockTakenError);
  });

  it('falls back for its own lock alone, and fails with the error of another', async () => {
    const { feeds, isFree } = await start();
    const values: number[] = [];

    const error = await rejection(
      lastValueFrom(feeds.observeTaken().pipe(tap((value) => values.push(value)))),
    );

    expect(values).toEqual([1]);
    expect(error).toMatchObject({ resources: ['other'] });
    expect(await isFree()).toBe(true);
  });

  it('fails with what the method throws, or where it returned something else', async () => {
    const { feeds, isFree } = await start();

    const thrown = await rejection(lastValueFrom(feeds.observeThrowing()));
    const wrong = await rejection(lastValueFrom(feeds.observeBadly()));

    expect(String(thrown)).toBe('Error: on call');
    expect(String(wrong)).toMatch(/Feeds\.observeBadly to return/);
    expect(await isFree()).toBe(true);
  });

  it('fails at once where the lock was lost before it was subscribed', async () => {
    const { feeds, loseLock } = await start();
    const observable = await feeds.observeLater();
    loseLock();
    if (feeds.lock !== undefined) await aborted(feeds.lock.signal);

    expect(await rejection(lastValueFrom(observable))).toMatchObject({ code: 'LOCK_LOST' });
    expect(source.values.observed).toBe(false);
  });

  it('by a promise: is locked for one subscription also when another has completed', async () => {
    const { feeds, isFree } = await start();
    const observable = await feeds.observeOnce();
    const { subscription } = subscribe(observable);

    await lastValueFrom(observable);
    await turn();
    const wasFree = await isFree();
    subscription.unsubscribe();

    expect(wasFree).toBe(false);
  });

  it('by a promise: is locked from the call until the last subscription has ended', async () => {
    const { feeds, isFree } = await start();

    const observable = await feeds.observeLater();
    expect(await isFree()).toBe(false);
    const [left, right] = [subscribe(observable), subscribe(observable)];
    left.subscription.unsubscribe();
    await emit(2);
    expect([await right.first, await isFree()]).toEqual([2, false]);
    source.values.complete();
    await right.end;

    expect(await isFree()).toBe(true);
    expect(await rejection(lastValueFrom(observable))).toMatchObject({
      code: 'LOCK_LOST',
      reason: 'released',
    });
    expect(source.subscriptions).toBe(2);
  });

  it('holds up no shutdown where its lock ran out before it is subscribed', async () => {
    const environment = new SimulatedEnvironment();
    const module = await startModule({ providers: [Feeds] }, { environment, ttl: 1_000 });
    const observable = await module.get(Feeds).observeLater();
    environment.block(1_000);

    const failure = await rejection(lastValueFrom(observable));
    // Time stands still: it would wait for ever for a body that has not ended.
    await module.close();

    expect(failure).toMatchObject({ code: 'LOCK_LOST' });
  });
});

describe('a @Locked method whose result answers to every name, as deep mocks do', () => {
  const nothing = (): undefined => undefined;

  /** As those of jest-mock-extended, Suites and createMock: resembles anything but a Promise. */
  function deepMock(target: object): object {
    return new Proxy(target, {
      get: (_target, key) => (key === 'then' ? undefined : () => deepMock(nothing)),
      has: (_target, key) => typeof key === 'string',
    });
  }

  it.each([
    ['an object', deepMock({})],
    ['a function', deepMock(nothing)],
  ])('gives it as it is, and leaves nothing locked: %s', async (_kind, mock) => {
    @Injectable()
    class Orders {
      @Locked('order')
      async find(): Promise<object> {
        return mock;
      }
    }
    const module = await startModule({ providers: [Orders] }, { shutdownTimeout: 0 });

    const order = await module.get(Orders).find();

    expect(order === mock).toBe(true);
    expect((await module.get(RedlockService).status()).held).toBe(0);
  });
});
