import { describe, expect, it, jest } from '@jest/globals';

import { LockLostError } from '../../lib/core/errors.js';
import { expectInstance, lossThrownBy, reasonOf, setScene } from './scene.js';

const ttl = 10_000;

const hour = 3_600_000;

describe('the very moment at which the validity ends', () => {
  it('is too late', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    environment.block(lock.remaining);

    expect(lock.isValid).toBe(false);
  });
});

describe('an event loop that was blocked for longer than the ttl', () => {
  it('finds the lock invalid in the very next statement', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));

    environment.block(ttl);

    expect(lock.isValid).toBe(false);
    expect(lock.remaining).toBe(0);
    expect(lossThrownBy(() => lock.assertHeld()).reason).toBe('expired');
  });

  it('finds the signal aborted in the very next statement', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    const { signal } = lock;
    const onAbort = jest.fn();
    signal.addEventListener('abort', onAbort);

    environment.block(ttl);

    expect(lossThrownBy(() => signal.throwIfAborted()).reason).toBe('expired');
    expect(signal.aborted).toBe(true);
    expect(onAbort).toHaveBeenCalledTimes(1);
  });

  it('finds the signal aborted also where nothing else was asked before', async () => {
    const { environment, redlock, until } = setScene();
    const { signal } = await until(redlock.acquire('r', ttl, { watchdog: true }));

    environment.block(ttl);

    expect(signal.aborted).toBe(true);
    expect(signal.reason).toBeInstanceOf(LockLostError);
  });

  it('is not saved by the answers to an extension that had waited meanwhile', async () => {
    const { environment, redlock, nodes, until } = setScene({ nodes: 1 });
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(5_000);
    for (const node of nodes) node.delay({ answer: 10 });
    const extension = reasonOf(lock.extend());
    await environment.settle();

    environment.block(5_000);
    await environment.advance(0);

    expect(lock.isValid).toBe(false);
    expect(expectInstance(await until(extension), LockLostError).reason).toBe('expired');
  });

  it('does not extend when its timers run at last', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));

    environment.block(2 * ttl);
    await environment.advance(ttl);

    expect(node(0).count('extend')).toBe(0);
    expect(lock.isValid).toBe(false);
  });

  it('but for less than that, still holds the lock and extends it', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));

    environment.block(0.9 * ttl);
    await environment.advance(ttl / 3);

    expect(lock.isValid).toBe(true);
  });

  // docs/CHOOSING.md: what the default ttl survives.
  it('for six seconds of the default ttl, still holds the lock, whenever that was', async () => {
    const begins = Array.from({ length: 40 }, (_, index) => 100 * index);

    const survived = await Promise.all(
      begins.map(async (begin) => {
        const { environment, redlock, until } = setScene();
        const lock = await until(redlock.acquire('r', undefined, { watchdog: true }));
        await environment.advance(begin);
        environment.block(6_000);
        await environment.advance(1);
        return lock.isValid && lock.remaining > 9_000;
      }),
    );

    expect(begins.filter((_, index) => survived[index] !== true)).toEqual([]);
  });
});

describe('a wall clock', () => {
  it.each([-hour, -500, 500])('that jumps by %d ms changes nothing', async (step) => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));

    environment.stepWallClock(step);

    expect(lock.isValid).toBe(true);
    await environment.advance(3 * ttl);
    expect(lock.isValid).toBe(true);
    expect(lock.remaining).toBeLessThanOrEqual(0.99 * ttl - 2);
  });

  it('that jumps back an hour does not hide the end of validity', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    environment.stepWallClock(-hour);
    await environment.advance(ttl);

    expect(lock.isValid).toBe(false);
  });

  it('that jumps ahead looks like a suspended machine: the lock counts as lost', async () => {
    const { environment, redlock, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    environment.stepWallClock(hour);

    const error = lossThrownBy(() => lock.assertHeld());
    expect(error.reason).toBe('suspended');
    expect(error.message).toMatch(/the machine was suspended, or its wall clock was set forward/);
    expect(observer.lost).toHaveBeenCalledWith(lock, 'suspended', expect.any(Number));
  });
});

describe('a machine that was suspended', () => {
  it('for more than a second has lost the lock', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));

    environment.suspend(1_001);

    expect(lock.isValid).toBe(false);
    expect(lock.signal.aborted).toBe(true);
  });

  it('for up to a second keeps it', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    environment.suspend(1_000);

    expect(lock.isValid).toBe(true);
  });

  it('several times between two extensions has slept for the sum', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    environment.suspend(600);
    environment.suspend(600);

    expect(lock.isValid).toBe(false);
  });

  it('is allowed the drift of a long ttl', async () => {
    const { environment, redlock, until } = setScene({ options: { ttlMax: 1_000_000 } });
    const lock = await until(redlock.acquire('r', 1_000_000));

    environment.suspend(9_000);
    const isValidWithinDrift = lock.isValid;
    environment.suspend(1_500);

    expect(isValidWithinDrift).toBe(true);
    expect(lock.isValid).toBe(false);
  });

  it('between the requests and the answers gets no lock', async () => {
    const { environment, redlock, nodes, observer } = setScene();
    for (const node of nodes) node.delay({ answer: 10 });
    const body = jest.fn();
    const call = redlock.using('r', { ttl, wait: 0 }, body).catch((error: unknown) => error);
    await environment.advance(5);

    environment.suspend(hour);
    await environment.advance(100);

    await call;
    expect(body).not.toHaveBeenCalled();
    expect(observer.acquired).not.toHaveBeenCalled();
  });
});
