// A batch does together what is alike: to the same effect as one operation after the other.
import { beforeEach, describe, expect, it } from '@jest/globals';

import type { Redis } from 'ioredis';

import type { BatchedOperation } from '../../lib/nodes/redis-script-arguments.js';
import { TOKENS_PER_BLOCK } from '../../lib/core/fencing.js';
import { TAGS, timeOf } from '../../lib/nodes/redis-stamp.js';
import type { World } from '../../lib/core/lock-node.js';
import { asBatch, asBatchAt, oneByOne, runBatch, runBatchAt } from './batch-calls.js';
import { drawBatch, LAST } from './drawn-batch.js';
import { requestFor, tokenAt, worldOf } from '../support/node-harness.js';
import { client, connect } from '../support/redis-of-spec.js';
import { callsOn, replidOf } from '../support/server-info.js';
import { Random } from '../simulation/random.js';

beforeEach(async () => {
  await clear();
  for (const prefix of ['one:', 'many:']) {
    await connect().subscribe(`${prefix}redlock:wake:`, `${prefix}redlock:wake:b`);
  }
});

async function clear(): Promise<void> {
  await client.flushall();
  // No lock, but in a lock's place.
  for (const prefix of ['one:', 'many:']) await client.lpush(`${prefix}list`, 'element');
}

// Nodes that were born long ago.
async function endQuarantine(): Promise<void> {
  const certificate = `${await replidOf(client)}:1`;
  for (const prefix of ['one:', 'many:']) await client.set(`${prefix}redlock:node`, certificate);
}

describe.each([
  ['with fencing', { fencing: true, quarantine: false, isOld: false }],
  ['without fencing', { fencing: false, quarantine: false, isOld: false }],
  ['with fencing, in quarantine', { fencing: true, quarantine: true, isOld: false }],
  ['without fencing, in quarantine', { fencing: false, quarantine: true, isOld: false }],
  ['with fencing, after quarantine', { fencing: true, quarantine: true, isOld: true }],
  ['without fencing, after quarantine', { fencing: false, quarantine: true, isOld: true }],
])('a batch, %s', (_, { isOld, ...options }) => {
  it('answers and stores what its operations would one by one', async () => {
    const random = new Random(options.fencing ? 3 : 4, 1);
    const seen = new Set<string>();
    const startedAt = Date.now() * 1_000;

    for (let round = 0; round < 300; round += 1) {
      // Tokens are near what the clock refuses: both have to be judged at the same moment.
      const now = startedAt + round * 10_000;
      // Otherwise a record is always higher than what the clock refuses.
      if (random.chance(0.2)) await clear();
      if (isOld) await endQuarantine();
      const draw = drawBatch(random, options.fencing, now);
      const single = await oneByOne(draw(worldOf({ ...options, keyPrefix: 'one:' })), now);
      const together = await asBatchAt(now, draw(worldOf({ ...options, keyPrefix: 'many:' })));

      // Nobody is told of what the batch has locked again.
      const told = (await client.exists('one:b')) > 0 ? 'done 0' : 'done 1';
      expect(together).toEqual(single.map((said) => (said === 'done 1' ? told : said)));
      expect(await dataBelow('many:')).toEqual(await dataBelow('one:'));
      for (const answer of single) seen.add(answer);
    }

    const always = ['done 0', 'done 1', 'error WRONGTYPE', 'revoked', 'taken'];
    const fenced = options.fencing ? ['ahead', 'stale'] : [];
    const given = options.quarantine && !isOld ? 'quarantined' : 'granted';
    expect([...seen].sort()).toEqual([...always, ...fenced, given].sort());
  });
});

async function userWithout(command: string): Promise<Redis> {
  const rights = ['~*', '&*', '+@all', `-${command}`];
  await client.call('ACL', ['SETUSER', 'weak', 'reset', 'on', '>secret', ...rights]);
  return connect({ username: 'weak', password: 'secret' });
}

describe('a user without the right to SET', () => {
  it.each([
    ['with fencing', true],
    ['without fencing', false],
  ])('is granted no lock, as none is stored, %s', async (_, fencing) => {
    const weak = await userWithout('set');
    const world = worldOf({ fencing });
    const acquisitions = ['a', 'b'].map((resource) => {
      const request = requestFor({ world, resources: [resource] });
      return { name: 'acquire', request } as const;
    });

    const answers = await asBatch(acquisitions, weak);

    const refused = expect.stringMatching(/^error/);
    expect(answers).toEqual([refused, refused]);
  });
});

describe('a user without the right to MGET', () => {
  it('gets the same, by one call for each lock', async () => {
    const slow = await userWithout('mget');
    const world = worldOf({ keyPrefix: 'many:' });
    const requests = ['a', 'b', 'c', 'behind'].map((resource) =>
      requestFor({ world, resources: [resource] }),
    );
    await client.hset('many:redlock:fences:even', 'many:behind', (requests.at(-1)?.token ?? 0) + 1);
    const acquire = requests.map((request) => ({ name: 'acquire', request }) as const);
    const release = requests.map(
      (request) =>
        ({ name: 'release', request: { ...request, wakes: true }, isListening: false }) as const,
    );

    const answers = await asBatch([...acquire, ...release], slow);

    expect(answers.slice(0, 4)).toEqual(['granted', 'granted', 'granted', 'stale']);
    expect(answers.slice(4)).toEqual(['done 0', 'done 1', 'done 0', 'done 0']);
  });
});

describe('operations that are alike', () => {
  const names = Array.from({ length: 10 }, (_, index) => `r${index}`);
  const now = Date.now() * 1_000;

  function runOf(world: World, token: number): BatchedOperation[] {
    const requests = names.map((name) => requestFor({ world, resources: [name], token }));
    return requests.map((request) => ({ name: 'acquire', request }));
  }

  function runNow(operations: readonly BatchedOperation[]): Promise<unknown> {
    return runBatchAt(now, operations);
  }

  it.each([
    ['with fencing', true, { hmget: 3, set: 10, hset: 1 }],
    ['without fencing', false, { set: 10 }],
  ])(
    'are done by one call for all, where that is not the lock itself, %s',
    async (_, fencing, calls) => {
      const world = worldOf({ fencing });
      const acquisitions = runOf(world, fencing ? now : 0);
      const releases = acquisitions.map(
        ({ request }) =>
          ({ name: 'release', request: { ...request, wakes: true }, isListening: false }) as const,
      );
      const callsOf = async (operations: readonly BatchedOperation[]): Promise<unknown> => {
        await client.config('RESETSTAT');
        await runNow(operations);
        const ran = Object.entries(await callsOn(client));
        return Object.fromEntries(ran.filter(([name]) => !/^(config|eval|info$)/.test(name)));
      };
      await runNow([{ name: 'acquire', request: requestFor({ world, token: now }) }]);

      const [acquired, released] = [await callsOf(acquisitions), await callsOf(releases)];

      expect(acquired).toEqual(calls);
      expect(released).toEqual({ mget: 1, del: 1, 'pubsub|numsub': 1 });
    },
  );

  it('are refused at the lower end of the clock’s window, and granted at the upper one', async () => {
    const world = worldOf();
    const skew = world.clockSkewMax * 1_000;

    const replies = [
      await runNow(runOf(world, now - skew)),
      await runNow(runOf(world, now + skew)),
    ];

    expect(replies).toEqual([[now, ...names.map(() => ['stale', now - skew])], now]);
  });

  it('are refused where a token of the block is on record, and granted the next block', async () => {
    const first = tokenAt(now / 1_000, 1);
    await client.hset(
      'redlock:fences:even',
      Object.fromEntries(names.map((name) => [name, first])),
    );

    const replies = [
      await runNow(runOf(worldOf(), first + LAST)),
      await runNow(runOf(worldOf(), first + TOKENS_PER_BLOCK + LAST)),
    ];

    expect(replies).toEqual([[now, ...names.map(() => ['stale', first])], now]);
  });

  it('are granted for their ttl also above a record that is ahead of the clock’s window', async () => {
    const world = worldOf();
    const record = tokenAt(now / 1_000 + world.clockSkewMax, 2 * TOKENS_PER_BLOCK);
    const records = Object.fromEntries(names.map((name) => [name, record]));
    // Kept beyond the first lock's own record, whichever hash that is written to.
    await client.hset('redlock:fences:even', { ...records, '': now + 1_000_000 });

    const reply = await runNow(runOf(world, record + 1));

    const lifetimes = await Promise.all(names.map((name) => client.pttl(name)));
    expect(reply).toBe(now);
    expect(Math.min(...lifetimes)).toBeGreaterThan(requestFor({ world }).ttl / 2);
  });

  it('are judged at one moment: the clock is asked once', async () => {
    await client.config('RESETSTAT');

    await runBatch(
      ['a', 'b'].map((name) => {
        const request = requestFor({ world: worldOf(), resources: [name, `other ${name}`] });
        return { name: 'acquire', request };
      }),
    );

    expect(await callsOn(client)).toMatchObject({ time: 1, set: 4 });
  });
});

describe('operations that all go well', () => {
  it.each([
    ['', false],
    [', after quarantine', true],
  ])('are answered with one number, the node’s time%s', async (_, quarantine) => {
    const world = worldOf({ keyPrefix: 'many:', quarantine });
    await endQuarantine();
    const requests = ['a', 'c'].map((name) => requestFor({ world, resources: [name] }));
    const acquisitions = requests.map((request) => ({ name: 'acquire', request }) as const);

    const reply = await runBatch(acquisitions);

    const [seconds, microseconds] = await client.time();
    const late = Number(seconds) * 1_000_000 + Number(microseconds) - timeOf(Number(reply));
    expect(typeof reply).toBe('number');
    expect(late).toBeGreaterThan(-TAGS);
    expect(late).toBeLessThan(60_000_000);
  });
});

describe('releases that are all told to somebody', () => {
  it.each([
    ['', 'plain:'],
    [', behind a key prefix of any characters', 'größe:'],
  ])('say so%s', async (_, keyPrefix) => {
    const world = worldOf({ keyPrefix });
    const channels = ['', 'a', 'b'].map((name) => `${keyPrefix}redlock:wake:${name}`);
    await connect().subscribe(...channels);
    const requests = ['a', 'b'].map((name) => requestFor({ world, resources: [name] }));
    await asBatch(requests.map((request) => ({ name: 'acquire', request })));

    const answers = await asBatch(
      requests.map((request) => ({
        name: 'release',
        request: { ...request, wakes: true },
        isListening: false,
      })),
    );

    expect(answers).toEqual(['done 1', 'done 1']);
  });
});

describe('deletions that are refused', () => {
  it('are errors of the releases that asked for them', async () => {
    const world = worldOf({ keyPrefix: 'many:' });
    const request = requestFor({ world, resources: ['a'] });
    const release = {
      name: 'release',
      request: { ...request, wakes: false },
      isListening: false,
    } as const;
    const pair = requestFor({ world, resources: ['b', 'c'] });
    const together = { ...release, request: { ...pair, wakes: false } } as const;
    await asBatch([request, pair].map((asked) => ({ name: 'acquire', request: asked })));
    await client.replicaof('127.0.0.1', 1);

    const answers = await asBatch([release, release, together]);

    await client.replicaof('NO', 'ONE');
    expect(answers).toEqual(['error READONLY', 'error READONLY', 'error READONLY']);
  });
});

// The one and the many may have begun their periods differently: which hash has a record is not
// compared.
async function dataBelow(prefix: string): Promise<Record<string, unknown>> {
  const isLock = (key: string): boolean => !/:list$|:redlock:/.test(key);
  const keys = (await client.keys(`${prefix}*`)).filter(isLock).sort();
  // In half minutes: the one are written somewhat sooner than the many.
  const lifetimeOf = async (key: string): Promise<number> => {
    const left = await client.pttl(key);
    return left < 0 ? left : Math.round(left / 30_000);
  };
  const locks = await Promise.all(
    keys.map(async (key) => [key, [await client.get(key), await lifetimeOf(key)]]),
  );
  const [even = {}, odd = {}] = await Promise.all(
    ['even', 'odd'].map((name) => client.hgetall(`${prefix}redlock:fences:${name}`)),
  );
  const recorded = Object.keys({ ...even, ...odd }).filter((key) => key !== '');
  const fences = recorded
    .sort()
    .map((key) => [`fence of ${key}`, Math.max(Number(even[key] ?? 0), Number(odd[key] ?? 0))]);
  const data = JSON.stringify([...locks, ...fences]).replaceAll(prefix, '');
  return Object.fromEntries(JSON.parse(data) as [string, unknown][]);
}
