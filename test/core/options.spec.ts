import { describe, expect, it } from '@jest/globals';

import { checkTtl, nodeTimeoutOf, resolveAcquire, resolveOptions } from '../../lib/core/options.js';
import { Redlock } from '../../lib/core/redlock.js';
import { minutes, seconds } from '../../lib/core/units.js';
import { MemoryNode } from '../../lib/nodes/memory-node.js';
import { setScene } from './scene.js';
import type { RedlockOptions, RetryDelay, UsingOptions } from '../../lib/core/options.js';

const delayMax = 2_147_483_647;

describe('the options that nobody gives', () => {
  it('have the documented defaults, frozen', () => {
    const options = resolveOptions({}, 3);

    expect(options).toEqual({
      ttl: 10_000,
      ttlMax: 30_000,
      wait: 5_000,
      retryDelay: { min: 20, max: 120 },
      driftFactor: 0.01,
      nodeTimeout: null,
      stallTimeout: 5_000,
      watchdog: true,
      maxHold: 3_600_000,
      shutdownTimeout: 10_000,
      world: {
        keyPrefix: '',
        fencing: true,
        clockSkewMax: 2_000,
        fenceRetention: 10_000,
        quarantine: 30_310,
      },
    });
    for (const part of [options, options.world, options.retryDelay, options.watchdog]) {
      expect(Object.isFrozen(part)).toBe(true);
    }
  });

  it('of one call are as the module has them', () => {
    const defaults = resolveOptions(
      { ttl: 2_000, wait: 7, retryDelay: { min: 1, max: 2 }, maxHold: 500 },
      3,
    );

    expect(resolveAcquire(defaults, 'acquire', undefined, {})).toEqual({
      ttl: 2_000,
      wait: 7,
      retryDelay: { min: 1, max: 2 },
      signal: null,
      watchdog: false,
      maxHold: 500,
      holdAtLeast: 0,
    });
    expect(resolveAcquire(defaults, 'using', undefined, {}).watchdog).toBe(true);
  });
});

describe('one call', () => {
  it('may say all of its options', () => {
    const { signal } = new AbortController();

    const resolved = resolveAcquire(resolveOptions({}, 3), 'using', 1_000, {
      wait: 1,
      retryDelay: { min: 500 },
      signal,
      watchdog: true,
      maxHold: 5_000,
      holdAtLeast: 4_000,
    });

    expect(resolved).toEqual({
      ttl: 1_000,
      wait: 1,
      retryDelay: { min: 500, max: 500 },
      signal,
      watchdog: true,
      maxHold: 5_000,
      holdAtLeast: 4_000,
    });
  });

  it('may switch the watchdog of `using` off', () => {
    const resolved = resolveAcquire(resolveOptions({}, 3), 'using', 1_000, { watchdog: false });

    expect(resolved.watchdog).toBe(false);
  });
});

describe('a retryDelay', () => {
  it.each<[Partial<RetryDelay>, RetryDelay]>([
    [{}, { min: 20, max: 120 }],
    [{ max: 50 }, { min: 20, max: 50 }],
    [{ min: 50 }, { min: 50, max: 120 }],
    [{ min: 200 }, { min: 200, max: 200 }],
  ])('of %j is completed', (retryDelay, complete) => {
    expect(resolveOptions({ retryDelay }, 3).retryDelay).toEqual(complete);
  });
});

describe('what follows from the options', () => {
  it('is a default ttl that ttlMax allows', () => {
    expect(resolveOptions({ ttlMax: 500 }, 3).ttl).toBe(500);
  });

  it('is a clock skew of a third of a short ttlMax, in whole ms', () => {
    const { world } = resolveOptions({ ttlMax: 1_000 }, 3);

    expect(world).toMatchObject({ clockSkewMax: 333, fenceRetention: 1_665, quarantine: 1_020 });
  });

  it.each([
    ['auto', 1, 0],
    ['auto', 2, 0],
    ['auto', 3, 30_310],
    [true, 1, 30_310],
    [false, 5, 0],
  ] as const)('is with quarantine %p on %i nodes one of %i ms', (quarantine, nodes, expected) => {
    expect(resolveOptions({ quarantine }, nodes).world.quarantine).toBe(expected);
  });

  it('is a watchdog for `using` alone', () => {
    const on = resolveOptions({ watchdog: true }, 3);
    const off = resolveOptions({ watchdog: false }, 3);

    expect(resolveAcquire(on, 'using', 500, {}).watchdog).toBe(true);
    expect(resolveAcquire(on, 'acquire', 500, {}).watchdog).toBe(false);
    expect(resolveAcquire(off, 'using', 500, {}).watchdog).toBe(false);
  });

  it.each([
    [undefined, 100, 25],
    [undefined, 500, 50],
    [undefined, 2_000, 100],
    [undefined, 30_000, 500],
    [2_000, 30_000, 2_000],
    [2_000, 1_000, 250],
    [10, 30_000, 10],
  ])('is with nodeTimeout %p and a ttl of %i an attempt of %i ms', (nodeTimeout, ttl, expected) => {
    const options = resolveOptions(nodeTimeout === undefined ? {} : { nodeTimeout }, 3);

    expect(nodeTimeoutOf(options, ttl)).toBe(expected);
  });
});

describe('a keyPrefix', () => {
  it.each(['', 'redlocks:', 'locks:'])('may be %j', (keyPrefix) => {
    expect(resolveOptions({ keyPrefix }, 3).world).toMatchObject({ keyPrefix });
  });
});

describe('a bad option of the module', () => {
  const integer = (name: string, from: number, to: number, got: string) =>
    new RangeError(`Expected ${name} to be an integer from ${from} to ${to} ms, got ${got}`);
  const keyPrefix = (got: string) =>
    new TypeError(
      'Expected keyPrefix to be a string that lets no key begin with "redlock:", ' +
        `which the protocol keeps for itself, got ${got}`,
    );

  it.each<[unknown, Error]>([
    [null, new TypeError('Expected options to be an object, got null')],
    ['redis://', new TypeError('Expected options to be an object, got a string')],
    [[5_000], new TypeError('Expected options to be an object, got an array')],
    [{ ttlMax: 99 }, integer('ttlMax', 100, 86_400_000, '99')],
    [{ ttlMax: 86_400_001 }, integer('ttlMax', 100, 86_400_000, '86400001')],
    [
      { ttl: 30_001 },
      new RangeError(
        'Expected ttl to be an integer from 100 to 30000 ' +
          '(ttlMax; the watchdog extends it for longer work) ms, got 30001',
      ),
    ],
    [{ ttl: '10s' }, new TypeError('Expected ttl to be a number of ms, got "10s"')],
    [{ ttlmax: 60_000 }, new TypeError('Expected only options of RedlockOptions, got "ttlmax"')],
    [
      { clockSkewMax: 1 },
      new TypeError('Expected only options of RedlockOptions, got "clockSkewMax"'),
    ],
    [{ wait: -1 }, integer('wait', 0, delayMax, '-1')],
    [{ wait: Infinity }, integer('wait', 0, delayMax, 'Infinity')],
    [{ wait: 2 ** 31 }, integer('wait', 0, delayMax, '2147483648')],
    [{ wait: '5' }, new TypeError('Expected wait to be a number of ms, got "5"')],
    [{ retryDelay: 50 }, new TypeError('Expected retryDelay to be an object, got 50')],
    [
      { retryDelay: { minimum: 50 } },
      new TypeError('Expected only members of RetryDelay in retryDelay, got "minimum"'),
    ],
    [
      { retryDelay: { min: 0 } },
      new RangeError(`Expected retryDelay.min to be from 1 to ${delayMax}, got 0`),
    ],
    [
      { retryDelay: { min: 100, max: 50 } },
      new RangeError(`Expected retryDelay.max to be from 100 to ${delayMax}, got 50`),
    ],
    [
      { retryDelay: { min: 'a' } },
      new TypeError('Expected retryDelay.min to be a number, got "a"'),
    ],
    [{ driftFactor: 0 }, new RangeError('Expected driftFactor to be from 0.001 to 0.1, got 0')],
    [{ driftFactor: 0.2 }, new RangeError('Expected driftFactor to be from 0.001 to 0.1, got 0.2')],
    [{ driftFactor: NaN }, new RangeError('Expected driftFactor to be from 0.001 to 0.1, got NaN')],
    [{ driftFactor: '1%' }, new TypeError('Expected driftFactor to be a number, got "1%"')],
    [{ nodeTimeout: 0 }, integer('nodeTimeout', 1, 30_000, '0')],
    [{ nodeTimeout: 40_000 }, integer('nodeTimeout', 1, 30_000, '40000')],
    [{ stallTimeout: 0 }, integer('stallTimeout', 1, delayMax, '0')],
    [{ stallTimeout: 2 ** 31 }, integer('stallTimeout', 1, delayMax, '2147483648')],
    [{ watchdog: 'yes' }, new TypeError('Expected watchdog to be true or false, got "yes"')],
    [{ maxHold: 50 }, integer('maxHold', 100, delayMax, '50')],
    [{ maxHold: 2 ** 31 }, integer('maxHold', 100, delayMax, '2147483648')],
    [{ shutdownTimeout: -1 }, integer('shutdownTimeout', 0, delayMax, '-1')],
    [{ shutdownTimeout: 0.5 }, integer('shutdownTimeout', 0, delayMax, '0.5')],
    [
      { quarantine: 'on' },
      new TypeError(`Expected quarantine to be 'auto', true or false, got "on"`),
    ],
    [{ keyPrefix: 7 }, keyPrefix('7')],
    [{ keyPrefix: 'redlock' }, keyPrefix('"redlock"')],
    [{ keyPrefix: 'redlock:' }, keyPrefix('"redlock:"')],
    [{ keyPrefix: 'redlock:app:' }, keyPrefix('"redlock:app:"')],
    [{ fencing: 1 }, new TypeError('Expected fencing to be true or false, got 1')],
  ])('%j is refused with its name, its rule and its value', (options, expected) => {
    const resolve = () => resolveOptions(options as RedlockOptions, 3);

    expect(resolve).toThrow(expected);
    expect(resolve).toThrow(expected.constructor);
  });

  it('is refused by the constructor', () => {
    const { nodes } = setScene();

    expect(() => new Redlock(nodes, { ttl: 1 })).toThrow(RangeError);
  });
});

describe('a quorum below the majority', () => {
  it.each([1, 2, 3, 4, 5])('is no option: of %i nodes a majority has to vote', (nodeCount) => {
    const nodes = Array.from({ length: nodeCount }, () => new MemoryNode());
    const options = { quorum: 1 } as RedlockOptions;

    expect(() => new Redlock(nodes, options)).toThrow(/^Expected only options .*got "quorum"$/);
    expect(new Redlock(nodes).status().quorum * 2).toBeGreaterThan(nodeCount);
  });
});

describe('a bad ttl', () => {
  it.each<[unknown, Error]>([
    [0, new RangeError('Expected ttl to be an integer from 100 to 30000 (ttlMax) ms, got 0')],
    [-5, new RangeError('Expected ttl to be an integer from 100 to 30000 (ttlMax) ms, got -5')],
    [99, new RangeError('Expected ttl to be an integer from 100 to 30000 (ttlMax) ms, got 99')],
    [
      100.5,
      new RangeError('Expected ttl to be an integer from 100 to 30000 (ttlMax) ms, got 100.5'),
    ],
    [NaN, new RangeError('Expected ttl to be an integer from 100 to 30000 (ttlMax) ms, got NaN')],
    [
      30_001,
      new RangeError(
        'Expected ttl to be an integer from 100 to 30000 ' +
          '(ttlMax; the watchdog extends it for longer work) ms, got 30001',
      ),
    ],
    [null, new TypeError('Expected ttl to be a number of ms, got null')],
    [{}, new TypeError('Expected ttl to be a number of ms, got an object')],
  ])('of %p is refused before any node is asked', async (ttl, expected) => {
    const { redlock, node, rejection } = setScene();

    const fromAcquire = await rejection(redlock.acquire('r', ttl as number));
    const fromTryAcquire = await rejection(redlock.tryAcquire('r', ttl as number));

    for (const error of [fromAcquire, fromTryAcquire]) {
      expect(error).toEqual(expected);
      expect(error).toBeInstanceOf(expected.constructor);
    }
    expect(node(0).calls).toEqual([]);
  });

  it.each([100, 30_000])('is not %i', (ttl) => {
    expect(checkTtl(ttl, 30_000)).toBe(ttl);
  });
});

describe('a bad option of one call', () => {
  it.each<[UsingOptions, Error]>([
    [
      { wait: -1 },
      new RangeError(`Expected wait to be an integer from 0 to ${delayMax} ms, got -1`),
    ],
    [
      { maxHold: 1 },
      new RangeError(`Expected maxHold to be an integer from 100 to ${delayMax} ms, got 1`),
    ],
    [
      { holdAtLeast: -1 },
      new RangeError(
        'Expected holdAtLeast to be an integer from 0 to 3600000 (maxHold) ms, got -1',
      ),
    ],
    [
      { holdAtLeast: 3_000, maxHold: 2_000 },
      new RangeError('Expected holdAtLeast to be an integer from 0 to 2000 (maxHold) ms, got 3000'),
    ],
    [
      { signal: {} as AbortSignal },
      new TypeError('Expected signal to be an AbortSignal, got an object'),
    ],
    [
      { watchdog: null as unknown as boolean },
      new TypeError('Expected watchdog to be true or false, got null'),
    ],
    [
      { retryDelay: null as unknown as object },
      new TypeError('Expected retryDelay to be an object, got null'),
    ],
  ])('%j is refused before any node is asked, and the body does not run', async (bad, expected) => {
    const { redlock, node, rejection } = setScene();
    let runs = 0;

    const error = await rejection(redlock.using('r', bad, () => (runs += 1)));

    expect(error).toEqual(expected);
    expect(runs).toBe(0);
    expect(node(0).calls).toEqual([]);
  });

  it.each<[object, string]>([
    [{ waits: 5 }, 'waits'],
    [{ ttl: 500 }, 'ttl'],
    [{ holdAtLeast: 500 }, 'holdAtLeast'],
  ])('%j is none of acquire, and refused', async (options, name) => {
    const { redlock, rejection } = setScene();

    for (const call of [
      redlock.acquire('r', 1_000, options),
      redlock.tryAcquire('r', 1_000, options),
    ]) {
      expect(await rejection(call)).toEqual(
        new TypeError(`Expected only options of AcquireOptions, got "${name}"`),
      );
    }
  });

  it('that is none of using is refused', async () => {
    const { redlock, rejection } = setScene();

    const error = await rejection(redlock.using('r', { tll: 500 } as object, () => undefined));

    expect(error).toEqual(new TypeError('Expected only options of UsingOptions, got "tll"'));
  });

  it('that is no object is refused', async () => {
    const { redlock, rejection } = setScene();

    const error = await rejection(redlock.acquire('r', 1_000, 5 as unknown as object));

    expect(error).toEqual(new TypeError('Expected options to be an object, got 5'));
  });
});

describe('seconds and minutes', () => {
  it('are whole milliseconds', () => {
    expect(seconds(1.5)).toBe(1_500);
    expect(seconds(0.0004)).toBe(0);
    expect(minutes(2)).toBe(120_000);
    expect(minutes(1 / 7)).toBe(8_571);
  });
});
