// What README.md states, held against the code; what it shows: documents.spec.ts.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from '@jest/globals';
import * as library from 'nestjs-locked';

import { nodeTimeoutOf, resolveAcquire, resolveOptions } from '../lib/core/options.js';

const root = join(import.meta.dirname, '..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');

describe('the README', () => {
  it.each(optionRows())('states the default of %s as it is: %s', (option, stated) => {
    const { ttl, ttlMax, wait, retryDelay, driftFactor, stallTimeout, maxHold, shutdownTimeout } =
      resolveOptions({}, 3);
    const { fencing, keyPrefix } = resolveOptions({}, 3).world;
    const known = { ttl, ttlMax, wait, retryDelay, driftFactor, stallTimeout, maxHold };
    const actual = new Map<string, unknown>(
      Object.entries({ ...known, shutdownTimeout, fencing, keyPrefix }),
    );

    // Those that are no plain values have tests of their own below.
    if (actual.has(option)) expect(valueOf(stated)).toEqual(actual.get(option));
    else expect(DESCRIBED_IN_WORDS).toContain(option);
  });

  it('states the derived defaults as they are: node timeout, watchdog and quarantine', () => {
    const options = resolveOptions({}, 3);

    expect([500, 2_000, 30_000].map((ttl) => nodeTimeoutOf(options, ttl))).toEqual([50, 100, 500]);
    expect(nodeTimeoutOf(options, 100)).toBe(25);
    expect(resolveAcquire(options, 'acquire', undefined, {}).watchdog).toBe(false);
    expect(resolveAcquire(options, 'using', undefined, {}).watchdog).toBe(true);
    expect([1, 2, 3, 4].map((count) => resolveOptions({}, count).world.quarantine > 0)).toEqual([
      false,
      false,
      true,
      true,
    ]);
  });

  it('names every error and its code', () => {
    const errors = Object.entries(library).filter(([name]) => name.endsWith('Error'));
    const codes = errors.flatMap(([, error]) => ('code' in error ? [error.code] : []));

    expect(codes.length).toBe(6);
    for (const code of codes) expect(readme).toContain(`\`${code}\``);
  });
});

const DESCRIBED_IN_WORDS = [
  'nodeTimeout',
  'watchdog',
  'quarantine',
  'reentrant',
  'isGlobal',
  'interceptor',
  'httpStatus',
  'environment',
];

function optionRows(): [option: string, stated: string][] {
  const section = readme.slice(readme.indexOf('## Options'), readme.indexOf('One call takes'));
  const rows = [...section.matchAll(/^\| `(\w+)` \|(.*?)\|/gm)];
  const stated = rows.map(([, option, value]): [string, string] => [
    option ?? '',
    value?.trim() ?? '',
  ]);
  return stated.filter(([, value]) => /\w|'/.test(value));
}

function valueOf(stated: string): unknown {
  const literal = stated.replaceAll('`', '').replaceAll('_', '').replaceAll("'", '"');
  return JSON.parse(literal.replace(/(\w+):/g, '"$1":'));
}
