// Rules that hold for all inputs, not only for those that somebody thought of.
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import {
  checkTtl,
  nodeTimeoutOf,
  resolveAcquire,
  resolveOptions,
  type RedlockOptions,
} from '../../lib/core/options.js';
import { NodeLeases } from '../../lib/core/node-leases.js';
import { judge, leaseUntil, majorityOf, validUntilOf, type Ballot } from '../../lib/core/quorum.js';
import { normalizeResources } from '../../lib/core/resources.js';

const nodeCounts = fc.integer({ min: 1, max: 9 });
const instants = fc.double({ min: 0, max: 1e9, noNaN: true });
const ttls = fc.integer({ min: 100, max: 86_400_000 });
const drifts = fc.double({ min: 0.001, max: 0.1, noNaN: true });

/** Options that are all as their rules say; any of them may be left out. */
const validOptions: fc.Arbitrary<RedlockOptions> = ttls.chain((ttlMax) =>
  fc.record(
    {
      ttlMax: fc.constant(ttlMax),
      ttl: fc.integer({ min: 100, max: ttlMax }),
      driftFactor: drifts,
      nodeTimeout: fc.integer({ min: 1, max: ttlMax }),
      wait: fc.nat(2_147_483_647),
      maxHold: fc.integer({ min: 100, max: 2_147_483_647 }),
      quarantine: fc.constantFrom('auto' as const, true, false),
      fencing: fc.boolean(),
      watchdog: fc.boolean(),
      keyPrefix: fc.string({ maxLength: 8 }),
    },
    { requiredKeys: ['ttlMax', 'ttl'] },
  ),
);

/** Whatever else may stand where a number of ms is expected. */
const notWholeMilliseconds = fc.oneof(
  fc.double().filter((value) => !Number.isInteger(value)),
  fc.integer({ max: -1 }),
  fc.string(),
  fc.boolean(),
  fc.array(fc.integer()),
  fc.object(),
);

describe('options that keep their rules', () => {
  it('resolve to values that can be given again with the same outcome', () => {
    fc.assert(
      fc.property(validOptions, nodeCounts, (options, nodeCount) => {
        const { world, watchdog, nodeTimeout, ...rest } = resolveOptions(options, nodeCount);
        const { keyPrefix, fencing, quarantine } = world;

        const again = resolveOptions(
          {
            ...rest,
            keyPrefix,
            fencing,
            quarantine: quarantine > 0,
            watchdog,
            ...(nodeTimeout === null ? {} : { nodeTimeout }),
          },
          nodeCount,
        );

        expect(again).toEqual({ world, watchdog, nodeTimeout, ...rest });
      }),
    );
  });

  it('give the nodes whole milliseconds, and a quarantine that outlasts every ttl', () => {
    fc.assert(
      fc.property(validOptions, (options) => {
        const { ttlMax, driftFactor, world } = resolveOptions({ ...options, quarantine: true }, 3);
        const { clockSkewMax, fenceRetention, quarantine } = world;

        expect([clockSkewMax, fenceRetention, quarantine].every(Number.isInteger)).toBe(true);
        expect(quarantine).toBeGreaterThan(ttlMax * (1 + driftFactor));
        expect(quarantine).toBeGreaterThan(3 * clockSkewMax);
        expect(clockSkewMax).toBeLessThanOrEqual(Math.min(2_000, ttlMax / 3));
        expect(fenceRetention).toBe(5 * clockSkewMax);
      }),
    );
  });

  it('never wait for nodes longer than a quarter of the ttl, and always at least 1 ms', () => {
    fc.assert(
      fc.property(validOptions, ttls, (options, ttl) => {
        const timeout = nodeTimeoutOf(resolveOptions(options, 3), ttl);

        expect(Number.isInteger(timeout)).toBe(true);
        expect(timeout).toBeGreaterThanOrEqual(1);
        expect(timeout).toBeLessThanOrEqual(ttl / 4);
      }),
    );
  });

  it('are what one call gets where it says nothing', () => {
    fc.assert(
      fc.property(validOptions, (options) => {
        const resolved = resolveOptions(options, 3);
        const { ttl, wait, maxHold, retryDelay } = resolved;

        expect(resolveAcquire(resolved, 'acquire', undefined, {})).toMatchObject({
          ...{ ttl, wait, maxHold, retryDelay },
          watchdog: false,
        });
      }),
    );
  });
});

describe('options that break a rule', () => {
  const names = ['ttl', 'ttlMax', 'wait', 'nodeTimeout', 'stallTimeout', 'maxHold'] as const;

  it('are refused by an error that names the option', () => {
    fc.assert(
      fc.property(fc.constantFrom(...names), notWholeMilliseconds, (name, value) => {
        const options = { [name]: value } as RedlockOptions;

        expect(() => resolveOptions(options, 3)).toThrow(new RegExp(`^Expected ${name} to be `));
      }),
    );
  });

  it('are refused where a ttl is longer than ttlMax', () => {
    fc.assert(
      fc.property(ttls, ttls, (ttl, ttlMax) => {
        if (ttl <= ttlMax) expect(checkTtl(ttl, ttlMax)).toBe(ttl);
        else expect(() => checkTtl(ttl, ttlMax)).toThrow(RangeError);
      }),
    );
  });
});

describe('resources', () => {
  const names = fc.string({ minLength: 1 }).filter((name) => !name.startsWith('redlock:'));

  it('are the same however they are ordered and repeated', () => {
    fc.assert(
      fc.property(fc.array(names, { minLength: 1 }), (resources) => {
        const normal = normalizeResources(resources);

        expect(normalizeResources([...resources, ...resources].reverse())).toEqual(normal);
        expect(normalizeResources(normal)).toEqual(normal);
        expect(new Set(normal)).toEqual(new Set(resources));
        expect(normal.length).toBe(new Set(resources).size);
      }),
    );
  });

  it('that are no names are refused, wherever they stand', () => {
    const bad = fc.oneof(
      fc.constant(''),
      fc.string().map((rest) => `redlock:${rest}`),
      fc.anything().filter((value) => typeof value !== 'string' && !Array.isArray(value)),
    );
    fc.assert(
      fc.property(fc.array(names), bad, fc.array(names), (before, name, after) => {
        expect(() => normalizeResources([...before, name, ...after])).toThrow(/^Expected /);
      }),
    );
  });
});

describe('validity', () => {
  it('ends before any node may forget, however the rates of the clocks drift', () => {
    fc.assert(
      fc.property(
        instants,
        ttls,
        drifts,
        fc.double({ min: 0, max: 1, noNaN: true }),
        (at, ttl, drift, share) => {
          // The node is asked at `at` or later, and its clock is fast by at most the drift.
          const forgetsAt = at + ttl / (1 + drift * share);

          expect(leaseUntil(at, ttl, drift)).toBeLessThan(forgetsAt);
        },
      ),
    );
  });

  it('is what a majority of nodes covers: one moment later, too few do', () => {
    fc.assert(
      fc.property(fc.array(instants, { minLength: 1, maxLength: 9 }), (leases) => {
        const quorum = majorityOf(leases.length);
        const validUntil = validUntilOf(leases, quorum);

        expect(leases.filter((lease) => lease >= validUntil).length).toBeGreaterThanOrEqual(quorum);
        expect(leases.filter((lease) => lease > validUntil).length).toBeLessThan(quorum);
      }),
    );
  });

  it('never grows by a revocation, nor shrinks by a grant', () => {
    const steps = fc.array(
      fc.record({
        node: fc.nat(4),
        isGrant: fc.boolean(),
        startedAt: instants,
        ttl: ttls,
      }),
    );
    fc.assert(
      fc.property(steps, (list) => {
        const leases = new NodeLeases([null, null, null, null, null], 3);
        for (const { node, isGrant, startedAt, ttl } of list) {
          const before = leases.validUntil;
          if (isGrant) {
            const until = leaseUntil(startedAt, ttl, 0.01);
            leases.grant(node, { startedAt, ttl, until, clockGapMax: 0 });
            expect(leases.validUntil).toBeGreaterThanOrEqual(before);
          } else {
            leases.revoke(node, startedAt);
            expect(leases.validUntil).toBeLessThanOrEqual(before);
          }
        }
      }),
    );
  });

  it('cannot be had by two owners of the same round trip: two majorities share a node', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'b', 'none'), { minLength: 1 }), (votes) => {
        const wins = (owner: string): boolean => {
          const granted = votes.filter((vote) => vote === owner).length;
          return (
            judge(ballot({ granted, taken: votes.length - granted }), votes.length) === 'granted'
          );
        };

        expect(wins('a') && wins('b')).toBe(false);
      }),
    );
  });
});

function ballot(counts: Partial<Ballot>): Ballot {
  const none = { granted: 0, taken: 0, stale: 0, quarantined: 0, failed: 0, misconfigured: 0 };
  return { ...none, takenByOne: counts.taken ?? 0, ...counts };
}
