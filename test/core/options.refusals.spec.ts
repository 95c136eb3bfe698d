// Options that are refused, each with an error that names the option, its rule and the value.
import { describe, expect, it } from '@jest/globals';

import { checkTtl, resolveAcquire, resolveOptions } from '../../lib/core/options.js';
import { Redlock } from '../../lib/core/redlock.js';
import { MemoryNode } from '../../lib/nodes/memory-node.js';
import { setScene } from './scene.js';
import type { RedlockOptions, UsingOptions } from '../../lib/core/options.js';

const delayMax = 2_147_483_647;

const OPTIONS =
  'options of RedlockOptions (ttl, ttlMax, wait, retryDelay, driftFactor, nodeTimeout, ' +
  'stallTimeout, fencing, quarantine, keyPrefix, watchdog, maxHold, shutdownTimeout)';
const ACQUIRE_OPTIONS =
  'options of AcquireOptions (wait, retryDelay, watchdog, maxHold, signal, reentrant)';
const USING_OPTIONS =
  'options of UsingOptions (wait, retryDelay, watchdog, maxHold, signal, reentrant, ttl, ' +
  'holdAtLeast)';

describe('a bad option of the module', () => {
  const integer = (name: string, from: number, to: number, got: string) =>
    new RangeError(`Expected ${name} to be an integer from ${from} to ${to} ms, got ${got}`);
  const keyPrefix = (got: string) =>
    new TypeError(
      'Expected keyPrefix to be a well-formed string that lets no key begin with "redlock:", ' +
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
          '(ttlMax; for longer work let the watchdog extend it) ms, got 30001',
      ),
    ],
    [{ ttl: '10s' }, new TypeError('Expected ttl to be a number of ms, got "10s"')],
    [{ ttlmax: 60_000 }, new TypeError(`Expected only ${OPTIONS}, got "ttlmax"`)],
    [{ clockSkewMax: 1 }, new TypeError(`Expected only ${OPTIONS}, got "clockSkewMax"`)],
    [{ wait: -1 }, integer('wait', 0, delayMax, '-1')],
    [{ wait: Infinity }, integer('wait', 0, delayMax, 'Infinity')],
    [{ wait: 2 ** 31 }, integer('wait', 0, delayMax, '2147483648')],
    [{ wait: '5' }, new TypeError('Expected wait to be a number of ms, got "5"')],
    [{ retryDelay: 50 }, new TypeError('Expected retryDelay to be an object, got 50')],
    [
      { retryDelay: { minimum: 50 } },
      new TypeError('Expected only members of RetryDelay in retryDelay (min, max), got "minimum"'),
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
    [{ keyPrefix: 'app\ud83d:' }, keyPrefix('"app\\ud83d:"')],
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

describe('null, in place of an option that is left out', () => {
  const ofModule = {
    ttl: true,
    ttlMax: true,
    wait: true,
    retryDelay: true,
    driftFactor: true,
    nodeTimeout: true,
    stallTimeout: true,
    watchdog: true,
    maxHold: true,
    fencing: true,
    quarantine: true,
    keyPrefix: true,
    shutdownTimeout: true,
  } satisfies Record<keyof RedlockOptions, true>;
  // The service checks the ttl of a call.
  const ofCall = {
    wait: true,
    retryDelay: true,
    signal: true,
    watchdog: true,
    maxHold: true,
    holdAtLeast: true,
  } satisfies Record<Exclude<keyof UsingOptions, 'ttl'>, true>;

  it.each(Object.keys(ofModule))('is refused as %s of the module', (name) => {
    const expected = new RegExp(`^Expected ${name} to be .*, got null$`);

    expect(() => resolveOptions({ [name]: null }, 3)).toThrow(expected);
  });

  it.each(Object.keys(ofCall))('is refused as %s of a call', (name) => {
    const resolve = () =>
      resolveAcquire(resolveOptions({}, 3), 'using', undefined, { [name]: null });

    expect(resolve).toThrow(new RegExp(`^Expected ${name} to be .*, got null$`));
  });

  it.each(['min', 'max'])('is refused as %s of retryDelay', (name) => {
    const expected = `Expected retryDelay.${name} to be a number, got null`;

    expect(() => resolveOptions({ retryDelay: { [name]: null } }, 3)).toThrow(expected);
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
          '(ttlMax; for longer work let the watchdog extend it) ms, got 30001',
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
        new TypeError(`Expected only ${ACQUIRE_OPTIONS}, got "${name}"`),
      );
    }
  });

  it('that is none of using is refused', async () => {
    const { redlock, rejection } = setScene();

    const error = await rejection(redlock.using('r', { tll: 500 } as object, () => undefined));

    expect(error).toEqual(new TypeError(`Expected only ${USING_OPTIONS}, got "tll"`));
  });

  it.each(['acquire', 'using'])('is refused if %s gets its signal as the options', async (kind) => {
    const { redlock, rejection } = setScene();
    const { signal } = new AbortController();
    const options = signal as object;

    const call =
      kind === 'acquire'
        ? redlock.acquire('r', 1_000, options)
        : redlock.using('r', options, () => undefined);

    expect(String(await rejection(call))).toMatch(
      /^TypeError: Expected only options of \w+ \(.*\), got "/,
    );
  });

  it('that is no object is refused', async () => {
    const { redlock, rejection } = setScene();

    const error = await rejection(redlock.acquire('r', 1_000, 5 as unknown as object));

    expect(error).toEqual(new TypeError('Expected options to be an object, got 5'));
  });
});
