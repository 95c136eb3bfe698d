import { describe, expect, it } from '@jest/globals';

import { nodeTimeoutOf, resolveAcquire, resolveOptions } from '../../lib/core/options.js';
import { minutes, seconds } from '../../lib/core/units.js';
import type { RetryDelay } from '../../lib/core/options.js';

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

describe('seconds and minutes', () => {
  it('are whole milliseconds', () => {
    expect(seconds(1.5)).toBe(1_500);
    expect(seconds(0.0004)).toBe(0);
    expect(minutes(2)).toBe(120_000);
    expect(minutes(1 / 7)).toBe(8_571);
  });

  // Math would take null, an empty variable and [] for 0: one attempt instead of a wait.
  it.each<[unknown, string]>([
    [null, 'null'],
    [undefined, 'undefined'],
    ['', '""'],
    ['5', '"5"'],
    [[], 'an empty array'],
  ])('are not made of %j', (count, got) => {
    const mistake = (unit: string) => new TypeError(`Expected ${unit} to be a number, got ${got}`);

    expect(() => seconds(count as number)).toThrow(mistake('seconds'));
    expect(() => minutes(count as number)).toThrow(mistake('minutes'));
  });

  it.each([NaN, -1])('are not made of %p', (count) => {
    const mistake = (unit: string) =>
      new RangeError(`Expected ${unit} to be from 0 to Infinity, got ${count}`);

    expect(() => seconds(count)).toThrow(mistake('seconds'));
    expect(() => minutes(count)).toThrow(mistake('minutes'));
  });
});
