import { describe, expect, it, jest } from '@jest/globals';

import { describe as describeValue } from '../../lib/core/option-checks.js';
import { normalizeResources, resource } from '../../lib/core/resources.js';
import { setScene } from './scene.js';

describe('the names of resources', () => {
  it('come out without doubles and in the one order that every process uses', () => {
    expect(normalizeResources(['b', 'B', 'a', 'b', 'ä'])).toEqual(['B', 'a', 'b', 'ä']);
  });

  it('may have 512 characters, whatever their length in bytes', () => {
    for (const name of ['x'.repeat(512), '\u{1F512}'.repeat(256)]) {
      expect(normalizeResources(name)).toEqual([name]);
    }
  });

  it('may be 1,000 in one call', () => {
    const names = Array.from({ length: 1_000 }, (_, index) => `sku:${index}`);

    expect(normalizeResources(names)).toHaveLength(1_000);
  });

  it('may be one string', () => {
    expect(normalizeResources('sku:1')).toEqual(['sku:1']);
  });

  it('are no longer the array that the caller may still change', () => {
    const names = ['a'];

    const resources = normalizeResources(names);
    names[0] = 'b';

    expect(resources).toEqual(['a']);
  });
});

describe('a bad resource', () => {
  const rule = 'Expected resources to be a non-empty string or an array of them, got';
  // Without the name: it may come from a request, and such an error is logged by Nest.
  const reserved = new RangeError(
    'Expected resources not to begin with "redlock:", which the protocol keeps for itself',
  );

  it.each<[unknown, Error]>([
    ['', new TypeError(`${rule} ""`)],
    [undefined, new TypeError(`${rule} undefined`)],
    [null, new TypeError(`${rule} null`)],
    [7, new TypeError(`${rule} 7`)],
    [{}, new TypeError(`${rule} an object`)],
    [() => 'r', new TypeError(`${rule} a function`)],
    [[], new TypeError('Expected resources to name at least one resource, got an empty array')],
    [['a', ''], new TypeError(`${rule} ""`)],
    [['a', undefined], new TypeError(`${rule} undefined`)],
    [['a', ['b']], new TypeError(`${rule} an array`)],
    [['a', []], new TypeError(`${rule} an empty array`)],
    [Array(1), new TypeError(`${rule} undefined`)],
    ['redlock:node', reserved],
    [['a', 'redlock:fence:a'], reserved],
    [
      'x'.repeat(513),
      new RangeError(
        'Expected resources to have at most 512 characters, got 513; lock a hash of longer names',
      ),
    ],
    [
      'a\ud800',
      new RangeError('Expected resources to be well-formed Unicode, got half of a surrogate pair'),
    ],
  ])('%p is refused by every call, and nothing runs', async (bad, expected) => {
    const { redlock, node, rejection } = setScene();
    const body = jest.fn();
    const resource = bad as string;

    const errors = [
      await rejection(redlock.acquire(resource)),
      await rejection(redlock.tryAcquire(resource)),
      await rejection(redlock.using(resource, {}, body)),
    ];

    for (const error of errors) {
      expect(error).toEqual(expected);
      expect(error).toBeInstanceOf(expected.constructor);
    }
    expect(body).not.toHaveBeenCalled();
    expect(node(0).calls).toEqual([]);
  });

  it.each([
    ['another each time', (_: unknown, index: number) => `sku:${index}`],
    ['the same each time', () => 'sku:1'],
  ])('is the 1,001st of one call, %s, and nothing runs', async (_, name) => {
    const { redlock, node, rejection } = setScene();
    const resources = Array.from({ length: 1_001 }, name);

    const error = await rejection(redlock.acquire(resources));

    expect(error).toEqual(
      new RangeError(
        'Expected resources to name at most 1000 resources, got 1001; ' +
          'lock one resource that stands for all of them',
      ),
    );
    expect(error).toBeInstanceOf(RangeError);
    expect(node(0).calls).toEqual([]);
  });

  it.each([
    { keyPrefix: '', resource: 'app:redlock:node' },
    { keyPrefix: '', resource: 'app:redlock:rules' },
    { keyPrefix: 'app:', resource: 'other:redlock:fences:even' },
    { keyPrefix: 'app', resource: ':redlock:fences:odd' },
    { keyPrefix: 'red', resource: 'lock:node' },
    { keyPrefix: 'app:redlock:fences:', resource: 'even' },
  ])('is a key of the protocol in another world: "$keyPrefix" and "$resource"', async (given) => {
    const { keyPrefix, resource } = given;
    const { redlock, node, rejection } = setScene({ options: { keyPrefix } });

    const errors = [
      await rejection(redlock.acquire(['a', resource])),
      await rejection(redlock.tryAcquire(resource)),
      await rejection(redlock.using(resource, {}, () => undefined)),
      await rejection(redlock.inspect(resource)),
    ];

    for (const error of errors) {
      expect(error).toBeInstanceOf(RangeError);
      expect(String(error)).toMatch(/Expected resources?, after the keyPrefix, not to end with/);
      // It may come from a request.
      expect(String(error)).not.toContain('other:');
    }
    expect(node(0).calls).toEqual([]);
  });

  it.each([
    { keyPrefix: 'app:', resource: 'node' },
    { keyPrefix: 'app:redlock:', resource: 'nodes' },
    { keyPrefix: '', resource: 'app:redlock:node:1' },
  ])('is not what only looks like one: "$keyPrefix" and "$resource"', async (given) => {
    const { redlock, until } = setScene({ options: { keyPrefix: given.keyPrefix } });

    const lock = await until(redlock.acquire(given.resource));

    expect(lock.resources).toEqual([given.resource]);
    await until(lock.release());
  });

  it('is named by where it came from', () => {
    expect(() => normalizeResources('', 'what @Locked on Stock.reserve returned')).toThrow(
      new TypeError(
        'Expected what @Locked on Stock.reserve returned to be a non-empty string or an array of ' +
          'them, got ""',
      ),
    );
  });

  it('is refused by inspect', async () => {
    const { redlock, rejection } = setScene();

    expect(await rejection(redlock.inspect(''))).toEqual(
      new TypeError('Expected resource to be a non-empty string, got ""'),
    );
  });
});

describe('a template with the tag `resource`', () => {
  it('makes the name that it makes without the tag', () => {
    const [tenant, id, line] = ['a:b', 42, 9_007_199_254_740_993n];

    expect(resource`tenant:${tenant}:order:${id}:\u{1F512}${line}`).toBe(
      `tenant:${tenant}:order:${id}:\u{1F512}${line}`,
    );
    expect(resource`nightly`).toBe('nightly');
  });

  it.each<[unknown, string]>([
    [undefined, 'undefined'],
    [null, 'null'],
    ['', '""'],
    [NaN, 'NaN'],
    [Infinity, 'Infinity'],
    [true, 'true'],
    [{ id: 1 }, 'an object'],
    [['a', 'b'], 'an array'],
    [() => 1, 'a function'],
    [Symbol('id'), 'Symbol(id)'],
  ])('refuses %p, and tells its place', (value, shown) => {
    expect(() => resource`tenant:${'a'}:order:${value as string}`).toThrow(
      new TypeError(
        'Expected value 2 of resource`tenant:${…}:order:${…}` to be a non-empty string, ' +
          `a finite number or a bigint, got ${shown}`,
      ),
    );
  });
});

describe('a value in an error message', () => {
  it.each<[unknown, string]>([
    ['a "b"', '"a \\"b\\""'],
    [Symbol('s'), 'Symbol(s)'],
    [10n, '10'],
    [true, 'true'],
    [[1], 'an array'],
  ])('%p is shown as %s', (value, shown) => {
    expect(describeValue(value)).toBe(shown);
  });

  it("does not run the value's own code", () => {
    const value = {
      toString: () => {
        throw new Error('must not run');
      },
    };

    expect(describeValue(value)).toBe('an object');
  });
});
