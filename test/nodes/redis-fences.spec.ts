// The fence records on a server, from one period to the next. The scripts are told what time it is.
import { beforeEach, describe, expect, it } from '@jest/globals';

import {
  batchArguments,
  ownerArguments,
  type BatchedOperation,
} from '../../lib/nodes/redis-script-arguments.js';
import type { OwnerRequest } from '../../lib/core/lock-node.js';
import type { Microseconds } from '../../lib/core/units.js';
import { requestFor, tokenAt, worldOf } from '../support/node-harness.js';
import { client, connect } from '../support/redis-of-spec.js';
import { runAt, TAG } from '../support/scripts-at.js';

const world = worldOf();
const R = world.fenceRetention * 1_000;
const [EVEN, ODD] = ['redlock:fences:even', 'redlock:fences:odd'];
/** The beginning of an even period. */
const START = 2 * R * Math.floor((Date.now() * 1_000) / (2 * R));

beforeEach(async () => {
  await client.flushall();
});

function acquire(now: Microseconds, request: OwnerRequest): Promise<unknown> {
  const args = ownerArguments(TAG, { name: 'acquire', request });
  return runAt(now, 'acquire', args, { of: request.world });
}

/** Acquires and releases: the token stays. */
async function lock(now: Microseconds, resource: string, token = now): Promise<void> {
  const request = requestFor({ world, resources: [resource], token });
  expect(await acquire(now, request)).toBe(now);
  await client.del(resource);
}

async function recordsIn(hash: string): Promise<Record<string, string>> {
  const fields = Object.entries(await client.hgetall(hash));
  return Object.fromEntries(fields.filter(([key]) => key !== ''));
}

describe('the fence records', () => {
  it('are a table from the first on, which ends by itself when nobody uses the node', async () => {
    await lock(START, 'a');

    expect(await client.object('ENCODING', EVEN)).toBe('hashtable');
    const ttl = await client.pttl(EVEN);
    expect(ttl).toBeGreaterThan(2.9 * world.fenceRetention);
    expect(ttl).toBeLessThanOrEqual(3 * world.fenceRetention);
  });

  it('are kept through the next period, and gone when their own comes again', async () => {
    const [first, late] = [START + R - 1, START + 2 * R - 1];
    await lock(first, 'first');
    await lock(late, 'late');
    const before = await recordsIn(EVEN);

    await lock(START + 2 * R, 'new');

    expect(before).toEqual({ first: `${first}` });
    expect(await recordsIn(EVEN)).toEqual({ new: `${START + 2 * R}` });
    expect(await recordsIn(ODD)).toEqual({ late: `${late}` });
  });

  it('are all kept when the clock goes back into the period before', async () => {
    await lock(START + R - 1, 'a');
    await lock(START + R, 'b');

    await lock(START + R - 2, 'c');
    await lock(START + R + 1, 'd');

    expect(Object.keys(await recordsIn(EVEN)).sort()).toEqual(['a', 'c']);
    expect(Object.keys(await recordsIn(ODD)).sort()).toEqual(['b', 'd']);
  });

  it('are kept for as long as any of their writers wants, where these go by different R', async () => {
    const brief = { ...world, fenceRetention: world.fenceRetention / 5 };
    await lock(START, 'long');

    for (const now of [START + 1, START + (2 * R) / 5, START + 2 * R - 1]) {
      const request = requestFor({ world: brief, resources: ['brief'], token: now });
      await client.del('brief');
      await acquire(now, request);
    }

    expect(Object.keys(await recordsIn(EVEN)).sort()).toEqual(['brief', 'long']);
    expect(await client.pttl(EVEN)).toBeGreaterThan(2.9 * world.fenceRetention);
  });

  it('do not stay for ever when the clock was far ahead once', async () => {
    const year = 365 * 86_400_000_000;
    await lock(START + year - (year % (2 * R)), 'a');
    await lock(START, 'b');
    const before = await recordsIn(EVEN);

    await lock(START + 2 * R, 'c');

    expect(Object.keys(before).sort()).toEqual(['a', 'b']);
    expect(Object.keys(await recordsIn(EVEN))).toEqual(['c']);
  });

  it.each([
    ['even', START + 10, START + R + 10],
    ['odd', START + R + 10, START + 2 * R + 10],
  ])('refuse a token of the %s period in the next one', async (_, now, later) => {
    // So far ahead of the clock that only the record can know of it in the next period.
    const token = later + 1_000;
    const ahead = token - now;
    const hash = now < START + R ? EVEN : ODD;
    await client.hset(hash, { '': `${now + R}`, r: token });

    const answer = await acquire(later, requestFor({ world, token }));

    expect(ahead).toBeGreaterThan(R);
    expect(answer).toEqual([later, 'stale', token]);
  });

  it('are of each lock the highest, whichever period wrote it', async () => {
    const [now, high] = [START + R + 10, START + R + 1_000];
    await client.hset(EVEN, { r: high, s: high - 1 });
    await client.hset(ODD, { r: high - 1, s: high });

    const answers = [
      await acquire(now, requestFor({ world, token: high })),
      await acquire(now, requestFor({ world, resources: ['s'], token: high })),
      await acquire(now, requestFor({ world, resources: ['r', 's'], token: high + 1 })),
    ];

    expect(answers).toEqual([[now, 'stale', high], [now, 'stale', high], now]);
  });

  it('let two more than the highest in, however far ahead of the clock that is', async () => {
    const high = tokenAt(START / 1_000 + world.clockSkewMax + 1_000, 0);
    await client.hset(EVEN, { r: high });

    const answers = [
      await acquire(START, requestFor({ world, token: high + 3 })),
      await acquire(START, requestFor({ world, token: high + 2 })),
    ];

    expect(answers).toEqual([[START, 'ahead', high], START]);
  });

  // docs/OPERATIONS.md, "Sizing".
  it('are about a third of what a held lock takes, which is some 300 bytes', async () => {
    const used = async (): Promise<number> =>
      Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]);
    const before = await used();
    const count = 10_000;

    for (let first = 0; first < count; first += 1_000) {
      const resources = Array.from({ length: 1_000 }, (_, index) =>
        String(first + index).padStart(40, 'x'),
      );
      const ownerId = `${'f'.repeat(32)}:${first}`;
      await acquire(START, requestFor({ world, resources, ownerId, token: START + first }));
    }

    const ofLock = ((await used()) - before) / count;
    const ofRecord = Number(await client.memory('USAGE', EVEN, 'SAMPLES', 0)) / count;
    // Newer servers than Redis 7.0 need less for what surrounds keys and fields.
    expect(ofLock).toBeGreaterThan(150);
    expect(ofLock).toBeLessThan(450);
    expect(ofRecord / ofLock).toBeGreaterThan(0.25);
    expect(ofRecord / ofLock).toBeLessThan(0.5);
  });

  it('are as many as one call may be for: 1,000', async () => {
    const resources = Array.from({ length: 1_000 }, (_, index) => `r${index}`);
    const [all, one] = [
      requestFor({ world, resources, token: START }),
      { world, token: START + 1 },
    ];
    const answers: unknown[] = [];
    for (const resource of ['r0', 'r999']) {
      await client.hset(ODD, { [resource]: START - 1 });
      answers.push(await acquire(START, { ...all, token: START - 1 }));
      await client.del(ODD);
    }

    const granted = await acquire(START, all);

    expect(answers).toEqual(Array(2).fill([START, 'stale', START - 1]));
    expect(granted).toBe(START);
    expect(Object.keys(await recordsIn(EVEN))).toHaveLength(1_000);
    await client.del(...resources);
    const tombstone = { name: 'release', request: requestFor({ ...one, resources }) } as const;
    const request = { ...tombstone.request, wakes: false };
    await runAt(
      START,
      'release',
      ownerArguments(TAG, { ...tombstone, request, isListening: false }),
    );
    expect(new Set(Object.values(await recordsIn(EVEN)))).toEqual(new Set([`${START + 1}`]));
  });

  it.each([
    ['even', START],
    ['odd', START + R],
  ])(
    'are raised, never lowered, by an extension that creates its key in an %s period',
    async (parity, now) => {
      const args = (token: number): readonly (string | number)[] =>
        ownerArguments(TAG, { name: 'extend', request: requestFor({ world, token }) });
      const hash = `redlock:fences:${parity}`;
      await lock(now, 'r', now + 10);

      await runAt(now, 'extend', args(now + 9));
      const kept = await recordsIn(hash);
      await client.del('r');
      await runAt(now, 'extend', args(now + 11));

      expect(kept).toEqual({ r: `${now + 10}` });
      expect(await recordsIn(hash)).toEqual({ r: `${now + 11}` });
    },
  );
});

describe('a batch', () => {
  const requests = ['a', 'b'].map((resource, index) =>
    requestFor({ world, resources: [resource], token: START + index }),
  );
  const operations = requests.map((request): BatchedOperation => ({ name: 'acquire', request }));

  it('keeps what each of its operations records in a new period', async () => {
    const together = requestFor({ world, resources: ['c', 'd'], token: START + 2 });
    await lock(START - 2 * R, 'old');

    const all = [...operations, { name: 'acquire', request: together } as const];
    await runAt(START, 'batch', batchArguments(TAG, world, all));

    const tokens = [START, START + 1, START + 2, START + 2].map(String);
    expect(Object.values(await recordsIn(EVEN)).sort()).toEqual(tokens);
    expect(Object.keys(await recordsIn(EVEN)).sort()).toEqual(['a', 'b', 'c', 'd']);
  });

  it('keeps the record of an operation that is left out of the run around it', async () => {
    const far = START + world.clockSkewMax * 1_000 + 1;
    const request = requestFor({ world, resources: ['far'], token: far });
    await lock(START - 2 * R, 'old');
    await client.hset(ODD, { far: far - 1 });

    const reply = await runAt(
      START,
      'batch',
      batchArguments(TAG, world, [...operations, { name: 'acquire', request }]),
    );

    expect(reply).toBe(START);
    expect(await recordsIn(EVEN)).toEqual({ a: `${START}`, b: `${START + 1}`, far: `${far}` });
  });

  it.each([
    ['hmget', 'new'],
    ['hset', 'new'],
    ['unlink', 'new'],
    ['pexpire', 'new'],
    ['hset', 'known'],
  ])(
    'fails for each lock where the user has no right to %s, in a %s period',
    async (command, period) => {
      if (period === 'known') await lock(START, 'earlier');
      const rights = ['reset', 'on', '>secret', '~*', '&*', '+@all', `-${command}`];
      await client.call('ACL', ['SETUSER', 'weak', ...rights]);
      const weak = connect({ username: 'weak', password: 'secret' });

      const reply = await runAt(START, 'batch', batchArguments(TAG, world, operations), {
        on: weak,
      });

      const [, ...answers] = reply as [number, ...[string, string][]];
      expect(answers.map(([vote]) => vote)).toEqual(['error', 'error']);
      for (const [, message] of answers)
        expect(message).toMatch(/can't run this command|no permissions/i);
    },
  );

  it('fails for none but the lock whose record is not a token', async () => {
    await client.hset(EVEN, { a: 'nonsense' });

    const reply = await runAt(START, 'batch', batchArguments(TAG, world, operations));

    expect(reply).toEqual([START, ['error', expect.any(String)], 0]);
    expect(await client.exists('a', 'b')).toBe(1);
  });
});
