// What README.md states, held against the code; what it shows: documents.spec.ts.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from '@jest/globals';
import * as library from 'nestjs-locked';

import {
  nodeTimeoutOf,
  resolveAcquire,
  resolveOptions,
  type AcquireOptions,
  type UsingOptions,
} from '../lib/core/options.js';
import { createRegistration, resolveDomain } from '../lib/nest/redlock.module-definition.js';
import { resolveHttpStatus } from '../lib/nest/transport-errors.js';
import type { LockedOptions } from '../lib/nest/locked-definition.js';
import type { RedlockModuleOptions } from '../lib/nest/redlock.module-definition.js';
import type { ReentrantOptions } from '../lib/nest/reentry.js';

const root = join(import.meta.dirname, '..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');

describe('the README', () => {
  it('has all options of the module in its table', () => {
    expect(optionRows().map(([option]) => option)).toEqual(Object.keys(moduleDefaults()));
  });

  // Those that it describes in words have tests of their own below.
  it.each(Object.entries(moduleDefaults()).filter(([, value]) => value !== undefined))(
    'states the default of %s as it is: %j',
    (option, value) => {
      const [, stated = ''] = optionRows().find(([name]) => name === option) ?? [];

      expect(valueOf(stated)).toEqual(value);
    },
  );

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

  it.each(optionRanges())('states the least and the greatest %s: %d, %d', (option, min, max) => {
    const takes = (value: number): boolean => isTaken(option, value);

    const step = Number.isInteger(min) ? 1 : 0.0001;

    expect([min, max].map(takes)).toEqual([true, true]);
    expect([min - step, max + step].map(takes)).toEqual([false, false]);
  });

  it('states the HTTP statuses as they are in the table of errors', () => {
    const { taken, unavailable, lost } = resolveHttpStatus();

    const ofErrors = [...readme.matchAll(/^\| `\w+Error` \|.*\| (\d+)\D*\|$/gm)];

    // A nested call is a mistake in the program, which no option covers.
    const statuses = [taken, unavailable, unavailable, unavailable, lost, 500];
    expect(ofErrors.map(([, status]) => Number(status))).toEqual(statuses);
  });

  it('names all options of one call', () => {
    const [, ofAll = '', ofBodies = '', ofLocked = ''] =
      /One call takes (.*?); `using` and `@Locked` also (.*?);\s`@Locked` also (.*?)\./s.exec(
        readme,
      ) ?? [];
    const named = (text: string): string[] =>
      [...text.replaceAll(/\(.*?\)/gs, '').matchAll(/`(\w+)`/g)].map(([, name = '']) => name);

    expect(named(ofAll)).toEqual(Object.keys(OF_ALL));
    expect(named(ofBodies)).toEqual(Object.keys(OF_BODIES));
    expect(named(ofLocked)).toEqual([...Object.keys(OF_LOCKED), 'signal']);
  });

  it('names every error and its code', () => {
    const errors = Object.entries(library).filter(([name]) => name.endsWith('Error'));
    const codes = errors.flatMap(([, error]) => ('code' in error ? [error.code] : []));

    expect(codes.length).toBe(6);
    for (const code of codes) expect(readme).toContain(`\`${code}\``);
  });
});

/** The options of a call: the compiler sees to it that none is missing. */
const OF_ALL: Record<keyof (AcquireOptions & ReentrantOptions), true> = {
  wait: true,
  retryDelay: true,
  signal: true,
  watchdog: true,
  maxHold: true,
  reentrant: true,
};
const OF_BODIES: Record<Exclude<keyof UsingOptions, keyof AcquireOptions>, true> = {
  ttl: true,
  holdAtLeast: true,
};
const OF_LOCKED: Record<
  Exclude<keyof LockedOptions, keyof (UsingOptions & ReentrantOptions)>,
  true
> = { onTaken: true, redlock: true };

/** The default of each option of the module; undefined where the README has words for it. */
function moduleDefaults(): Record<keyof RedlockModuleOptions, unknown> {
  const { resolved, isReentrant, hasInterceptor, httpStatus } = createRegistration({});
  const { ttl, ttlMax, wait, retryDelay, driftFactor, stallTimeout, maxHold, shutdownTimeout } =
    resolved;
  return {
    ...{ ttl, ttlMax, wait, retryDelay, driftFactor, nodeTimeout: undefined, stallTimeout },
    ...{ watchdog: undefined, maxHold, fencing: resolved.world.fencing, quarantine: undefined },
    ...{ keyPrefix: resolved.world.keyPrefix, shutdownTimeout, reentrant: isReentrant },
    ...{ name: undefined, isGlobal: resolveDomain().isGlobal, interceptor: hasInterceptor },
    ...{ environment: undefined, httpStatus },
  };
}

/** The cells of the table of options. */
function optionRows(): string[][] {
  const section = readme.slice(readme.indexOf('## Options'), readme.indexOf('One call takes'));
  return [...section.matchAll(/^\| `(\w+)` \|(.*?)\|(.*?)\|/gm)].map(([, ...cells]) =>
    cells.map((cell) => cell.trim()),
  );
}

/** Of the options whose range is one of numbers. */
function optionRanges(): [option: string, min: number, max: number][] {
  const [, ofDurations = ''] = /at most ([\d ]+) \(24 days\)/.exec(readme) ?? [];
  // A share of the ttl has a test of its own.
  const rows = optionRows().filter(([, , range = '']) => /\d/.test(range) && !range.includes('/'));
  return rows.map(([option = '', , range = '']) => {
    const [, min = 'none', max = ofDurations] =
      /^(?:ms, )?(?:from )?(\d\S*)(?: to (.*))?$/.exec(range) ?? [];
    const greatest = max === '`ttlMax`' ? resolveOptions({}, 3).ttlMax : numberIn(max);
    return [option, numberIn(min), greatest];
  });
}

function numberIn(text: string): number {
  return Number(text.replaceAll(/\s/g, ''));
}

function isTaken(option: string, value: number): boolean {
  try {
    if (option === 'httpStatus') resolveHttpStatus({ taken: value });
    else if (option === 'retryDelay') resolveOptions({ retryDelay: { min: value } }, 3);
    else resolveOptions({ [option]: value }, 3);
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

function valueOf(stated: string): unknown {
  const literal = stated.replaceAll('`', '').replaceAll('_', '').replaceAll("'", '"');
  return JSON.parse(literal.replace(/(\w+):/g, '"$1":'));
}
