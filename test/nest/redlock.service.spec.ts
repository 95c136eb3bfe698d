import { describe, expect, it, jest } from '@jest/globals';
import { currentLock, LockReentryError, RedlockService, type Lock } from 'nestjs-locked';

import { startModule, startService } from './support/applications.js';
import { queryOf, rejection } from './support/events.js';

describe('RedlockService', () => {
  it('acquires, excludes and releases', async () => {
    const redlock = await startService();

    const lock = await redlock.acquire('a', 1_000);
    const second = await redlock.tryAcquire('a');
    await lock.release();
    const third = await redlock.tryAcquire(['a', 'b']);

    expect(second).toBeNull();
    expect(third?.resources).toEqual(['a', 'b']);
    await third?.release();
  });

  it('runs a body under a lock, with a ttl, with options or with neither', async () => {
    const redlock = await startService();
    const body = (lock: Lock): string => lock.resources.join();

    expect(await redlock.using('a', body)).toBe('a');
    expect(await redlock.using(['b', 'a'], 1_000, body)).toBe('a,b');
    expect(await redlock.using('c', { ttl: 1_000, wait: 0 }, body)).toBe('c');
    expect((await redlock.status()).held).toBe(0);
  });

  it.each<[string, (redlock: RedlockService) => Promise<unknown>]>([
    ['acquire', (redlock) => redlock.acquire('a')],
    ['tryAcquire', (redlock) => redlock.tryAcquire('a')],
    ['using', (redlock) => redlock.using('a', () => 1)],
    ['inspect', async (redlock) => redlock.inspect('a')],
    ['status', async (redlock) => redlock.status()],
  ])('by %s of a subclass among the providers tells to inject the service', async (_, call) => {
    class LockService extends RedlockService {}
    const module = await startModule({ providers: [LockService] });

    expect(await rejection(call(module.get(LockService)))).toEqual(
      new TypeError(
        'Expected RedlockService to come from RedlockModule, got it or a subclass among the ' +
          'providers of a module: remove it there, and inject the service',
      ),
    );
  });

  it('tells who holds a resource, and how the nodes are', async () => {
    const redlock = await startService();

    await redlock.using('a', async ({ ownerId }) => {
      expect(await redlock.inspect('a')).toMatchObject({ state: 'held', ownerId });
      expect(await redlock.status()).toMatchObject({ held: 1, quorum: 2, isClosed: false });
    });

    expect(await redlock.inspect('a')).toMatchObject({ state: 'free', ownerId: null });
  });

  it.each([
    ['an empty resource', (redlock: RedlockService) => redlock.using('', () => 1), /got ""/],
    ['no resource', (redlock: RedlockService) => redlock.acquire([]), /empty array/],
    ['ttl 99', (redlock: RedlockService) => redlock.acquire('a', 99), /ttl .*got 99/],
    ['ttl 30001', (redlock: RedlockService) => redlock.using('a', 30_001, () => 1), /30001/],
    [
      'ttl 1000.5',
      (redlock: RedlockService) => redlock.tryAcquire('a', 1000.5),
      /ttl .*got 1000\.5/,
    ],
    ['wait -1', (redlock: RedlockService) => redlock.using('a', { wait: -1 }, () => 1), /got -1/],
    [
      'a body that is none',
      (redlock: RedlockService) => redlock.using('a', 7 as unknown as () => number),
      /Expected body to be a function, got undefined/,
    ],
    [
      'null for a body',
      (redlock: RedlockService) => redlock.using('a', 500, null as unknown as () => number),
      /Expected body to be a function, got null/,
    ],
    [
      'options after the body, where they would say nothing',
      (redlock: RedlockService) =>
        (redlock.using as (...args: unknown[]) => Promise<unknown>).call(redlock, 'a', () => 1, {}),
      /Expected the options before the body, got them after it/,
    ],
    [
      'options that are none',
      (redlock: RedlockService) => redlock.using('a', 'x' as unknown as number, () => 1),
      /Expected options to be a ttl in ms or an object, got "x"/,
    ],
    [
      'null for options of a body',
      (redlock: RedlockService) => redlock.using('a', null as unknown as object, () => 1),
      /Expected options to be a ttl in ms or an object, got null/,
    ],
    [
      'options that are none, for one attempt',
      (redlock: RedlockService) => redlock.tryAcquire('a', 1_000, 5 as unknown as object),
      /Expected options to be an object, got 5/,
    ],
    [
      'null for options',
      (redlock: RedlockService) => redlock.acquire('a', 1_000, null as unknown as object),
      /Expected options to be an object, got null/,
    ],
    [
      'reentrant 1',
      (redlock: RedlockService) => redlock.acquire('a', 1_000, { reentrant: 1 as unknown as true }),
      /Expected reentrant to be true or false, got 1/,
    ],
    [
      'reentrant null',
      (redlock: RedlockService) =>
        redlock.acquire('a', 1_000, { reentrant: null as unknown as true }),
      /Expected reentrant to be true or false, got null/,
    ],
  ])('rejects %s, and nothing is locked', async (_name, call, message) => {
    const redlock = await startService();

    expect(String(await rejection(call(redlock)))).toMatch(message);
    expect((await redlock.status()).held).toBe(0);
  });
});

describe('a query, which begins when it is awaited', () => {
  it('begins in the context of the body that returns it', async () => {
    const redlock = await startService();

    const found = await redlock.using('a', () => queryOf(() => currentLock()?.resources));

    expect(found).toEqual(['a']);
  });

  it('is refused what its context holds, and does not wait for itself', async () => {
    const redlock = await startService({ wait: 60_000 });

    const nested = redlock.using('a', () => queryOf(() => redlock.using('a', () => undefined)));

    expect(await rejection(nested)).toBeInstanceOf(LockReentryError);
  });
});

describe('two copies of the package in one process, such as ESM and CJS', () => {
  it('know of the same lock in a context', async () => {
    const redlock = await startService();
    jest.resetModules();
    const copy = await import('nestjs-locked');

    const found = await redlock.using('a', () => copy.currentLock()?.resources);

    expect(copy.currentLock).not.toBe(currentLock);
    expect(found).toEqual(['a']);
  });
});
