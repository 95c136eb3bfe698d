import { describe, expect, it } from '@jest/globals';

import { Redlock } from '../../lib/core/redlock.js';
import { lossThrownBy, setScene } from './scene.js';
import { untilCollected } from '../support/collect-garbage.js';
import type { SimulatedEnvironment } from '../support/simulated-environment.js';

const ttl = 10_000;

describe('a lock', () => {
  it('names its resources without doubles and sorted, its owner and its token', async () => {
    const { redlock, environment, until } = setScene();

    const lock = await until(redlock.acquire(['b', 'a', 'b'], ttl));

    expect(lock.resources).toEqual(['a', 'b']);
    expect(lock.ownerId).toMatch(/^[0-9a-f]{32}:1$/);
    expect(lock.fencingToken).toBe(Math.floor(environment.wallClock() * 1_000));
  });

  it('shows its state to no matcher: any two are equal, but not the same', async () => {
    const { redlock, until } = setScene();

    const first = await until(redlock.acquire('r', ttl));
    const second = await until(redlock.acquire('s', ttl));

    expect(first).toEqual(second);
    expect(first).not.toBe(second);
  });

  it('has the token 0 where fencing is off', async () => {
    const { redlock, until } = setScene({ options: { fencing: false } });

    const lock = await until(redlock.acquire('r', ttl));

    expect(lock.fencingToken).toBe(0);
  });

  it('is released by `await using`', async () => {
    const { redlock, owners, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    await until(lock[Symbol.asyncDispose]());

    expect(await owners()).toEqual([null, null, null]);
    expect(lock.isValid).toBe(false);
  });
});

describe('a release', () => {
  const watched = { watchdog: true };

  it('is asked of all nodes that the acquisition was sent to', async () => {
    const { redlock, node, until } = setScene();
    node(2).fail('requestLost', 'acquire');
    const lock = await until(redlock.acquire('r', ttl));

    await until(lock.release());

    expect([0, 1, 2].map((index) => node(index).count('release'))).toEqual([1, 1, 1]);
  });

  it('is not asked of a node that was never sent anything', async () => {
    const { redlock, node, until } = setScene();
    node(2).refuse('acquire');
    const lock = await until(redlock.acquire('r', ttl));

    await until(lock.release());

    expect([0, 1, 2].map((index) => node(index).count('release'))).toEqual([1, 1, 0]);
  });

  it('is asked of a node that was sent an extension since', async () => {
    const { environment, redlock, node, owners, until } = setScene();
    node(2).refuse('acquire');
    const lock = await until(redlock.acquire('r', ttl, watched));
    node(2).heal();
    await environment.advance(ttl / 2);
    expect(await owners()).not.toContain(null);

    await until(lock.release());

    expect(await owners()).toEqual([null, null, null]);
  });
});

describe('a lock that was released', () => {
  it('is not kept in memory by a node that owes answers, nor what its caller gave', async () => {
    const { environment, node, otherProcess, until } = setScene();
    const redlock = otherProcess();
    node(2).hang();
    const come = async (): Promise<WeakRef<object>[]> => {
      const { signal } = new AbortController();
      const lock = await until(redlock.acquire('r', ttl, { signal }));
      await until(lock.release());
      return [new WeakRef(lock), new WeakRef(signal)];
    };

    const left = await come();
    await environment.advance(1_000);
    await Promise.all(left.map(untilCollected));

    expect([node(2).count('acquire'), node(2).count('release')]).toEqual([1, 1]);
  });
});

describe('assertHeld', () => {
  it('passes while the lock is held, for as long as it is asked for', async () => {
    const { redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    expect(() => lock.assertHeld()).not.toThrow();
    expect(() => lock.assertHeld({ atLeast: 9_898 })).not.toThrow();
  });

  it('passes up to the last fraction of a millisecond', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    environment.block(lock.remaining - 0.25);

    expect(() => lock.assertHeld()).not.toThrow();
  });

  it('throws where less than `atLeast` is left, and says how much', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(0.5);

    const error = lossThrownBy(() => lock.assertHeld({ atLeast: 9_898 }));

    expect(error.reason).toBe('expired');
    expect(error.message).toMatch(
      /^The lock of "r" is held for 9897 ms more, not 9898: extend it earlier, or use a longer ttl\. /,
    );
    expect(lock.isValid).toBe(true);
  });

  it.each([
    [{ atLeast: -1 }, RangeError, 'atLeast to be from 0 to Infinity, got -1'],
    [{ atLeast: NaN }, RangeError, 'atLeast to be from 0 to Infinity, got NaN'],
    [{ atLeast: '500' }, TypeError, 'atLeast to be a number, got "500"'],
    [{ atLeast: null }, TypeError, 'atLeast to be a number, got null'],
    [{ atleast: 500 }, TypeError, 'only options of assertHeld (atLeast), got "atleast"'],
    [500, TypeError, 'options to be an object, got 500'],
    [null, TypeError, 'options to be an object, got null'],
  ])('refuses %j, which would guard nothing', async (options, kind, message) => {
    const { redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    const check = (): unknown => Reflect.apply(lock.assertHeld, lock, [options]);

    expect(check).toThrow(kind);
    expect(check).toThrow(`Expected ${message}`);
  });

  it('says after a release that the holder released it', async () => {
    const { redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await until(lock.release());

    const error = lossThrownBy(() => lock.assertHeld());

    expect(error.reason).toBe('released');
    expect(error.message).toMatch(/^The lock of "r" is not held any more: its holder released it/);
    // No node was asked since it was acquired.
    expect(error.message).not.toContain('Nodes:');
    expect(error.resources).toEqual(['r']);
  });

  it('gives no wrong reason when the validity ends between two looks at the clock', async () => {
    const { environment, nodes, until } = setScene();
    let isTicking = false;
    const ticking = Object.create(environment, {
      now: {
        value: () => {
          const now = environment.now();
          if (isTicking) environment.block(0.4);
          return now;
        },
      },
      wallClock: { value: () => environment.wallClock() },
      startTimer: { value: environment.startTimer.bind(environment) },
      stopTimer: { value: environment.stopTimer.bind(environment) },
      random: { value: () => 0.5 },
      randomId: { value: () => '0'.repeat(32) },
    }) as SimulatedEnvironment;
    const redlock = new Redlock(nodes, {}, { environment: ticking });
    const lock = await until(redlock.acquire('r', ttl));
    environment.block(lock.remaining - 0.3);

    isTicking = true;
    const error = lossThrownBy(() => lock.assertHeld());

    expect(error.reason).toBe('expired');
    expect(error.message).toContain('is not held any more');
  });
});

describe('a bad ttl for an extension', () => {
  it.each([
    [99, new RangeError('Expected ttl to be an integer from 100 to 30000 (ttlMax) ms, got 99')],
    [
      30_001,
      new RangeError(
        'Expected ttl to be an integer from 100 to 30000 ' +
          '(ttlMax; for longer work let the watchdog extend it) ms, got 30001',
      ),
    ],
    ['1s', new TypeError('Expected ttl to be a number of ms, got "1s"')],
  ])('%p is refused at once, and the lock stays as it was', async (bad, expected) => {
    const { redlock, node, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    const error = await rejection(lock.extend(bad as number));

    expect(error).toEqual(expected);
    expect(lock.isValid).toBe(true);
    expect(node(0).count('extend')).toBe(0);
  });
});
