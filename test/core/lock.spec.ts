import { AsyncLocalStorage } from 'node:async_hooks';

import { describe, expect, it, jest } from '@jest/globals';

import { LockLostError } from '../../lib/core/errors.js';
import { Redlock } from '../../lib/core/redlock.js';
import { expectInstance, lossThrownBy, reasonOf, setScene } from './scene.js';
import { untilCollected } from '../support/collect-garbage.js';
import type { SimulatedEnvironment } from '../support/simulated-environment.js';

const ttl = 10_000;
const hour = 3_600_000;

describe('a lock', () => {
  it('names its resources without doubles and sorted, its owner and its token', async () => {
    const { redlock, environment, until } = setScene();

    const lock = await until(redlock.acquire(['b', 'a', 'b'], ttl));

    expect(lock.resources).toEqual(['a', 'b']);
    expect(lock.ownerId).toMatch(/^[0-9a-f]{32}:1$/);
    expect(lock.fencingToken).toBe(Math.floor(environment.wallClock() * 1_000));
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
    [{ atleast: 500 }, TypeError, 'only options of assertHeld, got "atleast"'],
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
});

describe('the signal of a lock', () => {
  it('is always the same one, and not aborted while the lock is held', async () => {
    const { redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    const { signal } = lock;

    expect(signal).toBeInstanceOf(AbortSignal);
    expect(lock.signal).toBe(signal);
    expect(signal.aborted).toBe(false);
    expect(() => signal.throwIfAborted()).not.toThrow();
  });

  it('carries the LockLostError as its reason', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const { signal } = lock;

    await environment.advance(ttl);

    expect(expectInstance(signal.reason, LockLostError).reason).toBe('expired');
    expect(lossThrownBy(() => signal.throwIfAborted())).toBe(signal.reason);
  });

  it('that is first read when the lock is lost already is aborted', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    environment.block(ttl);

    expect(lock.signal.aborted).toBe(true);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('that is first read when the lock is lost already has its reason at once', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    environment.block(ttl);

    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('never aborts by a release', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    const onAbort = jest.fn();
    lock.signal.addEventListener('abort', onAbort);

    await until(lock.release());
    await environment.advance(5 * ttl);

    expect(lock.signal.aborted).toBe(false);
    expect(onAbort).not.toHaveBeenCalled();
  });

  it('aborts whatever was combined with it', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const combined = AbortSignal.any([lock.signal, new AbortController().signal]);

    await environment.advance(ttl);

    expect(combined.aborted).toBe(true);
  });

  it('tells its listeners in the async context of its holder, whoever has the timer', async () => {
    const { environment, redlock, until } = setScene();
    const storage = new AsyncLocalStorage<string>();
    const lock = await until(redlock.acquire('r', ttl));
    const seen: unknown[] = [];
    storage.run('holder', () => {
      lock.signal.addEventListener('abort', () => seen.push(storage.getStore()));
    });

    await storage.run('another', () => environment.advance(ttl));

    expect(seen).toEqual(['holder']);
  });

  it('lets a listener release the lock', async () => {
    const { environment, redlock, owners, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    lock.signal.addEventListener('abort', () => void lock.release());
    node(0).restart();
    node(1).restart();

    await environment.advance(ttl / 3 + 10);

    expect(await owners()).toEqual([null, null, null]);
  });

  it('asks the nodes once when a listener releases a lock whose release finds it lost', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    lock.signal.addEventListener('abort', () => void lock.release());
    environment.block(ttl);

    await until(lock.release());

    expect(node(0).count('release')).toBe(1);
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

describe('a bad ttl for an extension', () => {
  it.each([
    [99, new RangeError('Expected ttl to be an integer from 100 to 30000 (ttlMax) ms, got 99')],
    [
      30_001,
      new RangeError(
        'Expected ttl to be an integer from 100 to 30000 ' +
          '(ttlMax; the watchdog extends it for longer work) ms, got 30001',
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

describe('a lost lock', () => {
  it('tells in its error also of a node that owed an answer, and was not asked', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    node(0).hang();
    await environment.advance(ttl / 3 + 10);
    node(1).restart();
    node(2).restart();

    await environment.advance(ttl / 3 + 10);

    expect(lossThrownBy(() => lock.assertHeld()).votes[0]).toEqual({
      node: 'node-0',
      vote: 'none',
      message: '',
    });
  });

  it("tells in its signal's reason also of the node whose answer ended it", async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    const { signal } = lock;
    for (const lost of [0, 1]) node(lost).restart();
    node(2).hang();

    await environment.advance(ttl / 3 + 10);

    const { votes } = expectInstance(signal.reason, LockLostError);
    expect(votes.map(({ vote }) => vote)).toEqual(['revoked', 'revoked', 'none']);
  });

  it('tells in its error also of an answer to the round before', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    node(0).restart();
    node(1).refuse();
    node(2).hang();
    await environment.advance(ttl / 3 + 10);
    node(0).refuse();
    await environment.advance(ttl / 9);
    node(2).expireNow('r');
    node(2).heal();
    await environment.advance(1);

    const error = lossThrownBy(() => lock.assertHeld());

    expect(error.votes.map(({ vote }) => vote)).toEqual(['failed', 'failed', 'revoked']);
  });

  it('tells in its error what the nodes had said', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    node(0).restart();
    node(1).restart();
    node(1).occupy('r', 60_000);
    node(2).refuse();

    await environment.advance(ttl / 3 + 10);

    const error = lossThrownBy(() => lock.assertHeld());
    expect(error.reason).toBe('revoked');
    expect(error.message).toMatch(/too few nodes still have its keys\. Nodes: node-0 revoked \(/);
    expect(error.votes).toEqual([
      {
        node: 'node-0',
        vote: 'revoked',
        message: 'the key was missing or is held by another owner',
      },
      { node: 'node-1', vote: expect.stringMatching(/revoked|none/), message: expect.any(String) },
      { node: 'node-2', vote: expect.stringMatching(/failed|none/), message: expect.any(String) },
    ]);
  });
});
