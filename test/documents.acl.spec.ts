// What the documents tell an operator to allow a Redis user has to be enough, and no more.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';

import { describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';

import { resolveOptions } from '../lib/core/options.js';
import { Redlock } from '../lib/core/redlock.js';
import { createNodes } from '../lib/nodes/node-inputs.js';
import type { RedisServer } from './support/redis-servers.js';
import { startServer } from './support/servers-of-test.js';

describe('the ACL line for a Redis user', () => {
  const operations = readFileSync(join(import.meta.dirname, '../docs/OPERATIONS.md'), 'utf8');
  const [, rule = ''] = /^ACL (SETUSER locks .*)/m.exec(operations) ?? [];
  const words = rule.split(' ');
  const rights = words.filter((word) => word.startsWith('+'));
  const unprefixed = words.map((word) => word.replace('app:', ''));

  it('is enough: nothing is denied, with waiting and extending', async () => {
    expect(await usedBy(words)).toEqual({ denied: [], failure: undefined });
  });

  it.each(rights)('has nothing too much: without %s something is denied', async (right) => {
    const { denied } = await usedBy(words.filter((word) => word !== right));

    expect(denied).not.toEqual([]);
  });

  it('is enough for another database with select, and not without', async () => {
    const without = await usedBy(words, { database: 1 });

    expect(without.denied).toEqual(['select']);
    expect(await usedBy([...words, '+select'], { database: 1 })).toEqual({
      denied: [],
      failure: undefined,
    });
  });

  it('is enough without a keyPrefix once its patterns have none, and not as it is', async () => {
    expect((await usedBy(words, { keyPrefix: '' })).denied.length).toBeGreaterThan(0);
    expect(await usedBy(unprefixed, { keyPrefix: '' })).toEqual({ denied: [], failure: undefined });
    const [, ...patterns] = /without one they are `(.*?)` and `(.*?)`/.exec(operations) ?? [];
    expect(patterns).toEqual(unprefixed.filter((word) => /^[~&]/.test(word)));
  });

  it('is enough with the names of the resources and the nodes’ own keys in place of ~*', async () => {
    const [, own = ''] = /`~order:\* (~.*?)`/.exec(operations) ?? [];
    const names = ['~r', '~a', '~b', own];
    const narrow = unprefixed.flatMap((word) => (word === '~*' ? names : [word]));

    expect(await usedBy(narrow, { keyPrefix: '' })).toEqual({ denied: [], failure: undefined });
  });

  it.each([
    [
      'publishing and subscribing: locks are waited for all the same',
      /^&|publish|pubsub|subscribe/,
    ],
    ['mget: a batch takes another way', /^\+?mget$/],
    ['info: the certificate of a node is enough', /^\+?info$/],
  ])('may go without %s', async (_what, isLeftOut) => {
    const { denied, failure } = await usedBy(words.filter((word) => !isLeftOut.test(word)));

    expect(failure).toBeUndefined();
    expect(denied.length).toBeGreaterThan(0);
    expect(denied.filter((command) => !isLeftOut.test(command))).toEqual([]);
  });
});

/** Where the user locks. */
interface Place {
  readonly database: number;
  readonly keyPrefix: string;
}

/** Uses all of the library as a user with these rights: what was denied, and what it came to. */
async function usedBy(
  words: readonly string[],
  place: Partial<Place> = {},
): Promise<{ denied: string[]; failure: unknown }> {
  const server = await startServer();
  const admin = server.client;
  await admin.call('ACL', [...words]);
  // There is one where a right is missing that it cannot go without.
  const failure = await use(server, admin, { database: 0, keyPrefix: 'app:', ...place }).catch(
    (error: unknown) => error,
  );
  const log = (await admin.call('ACL', ['LOG'])) as string[][];
  const denied = log.map((entry) => entry[entry.indexOf('object') + 1] ?? '');
  // Servers before Redis 7.2 refuse a rule that names it, and those from then on do without.
  return { denied: denied.filter((command) => command !== 'client|setinfo'), failure };
}

async function use(
  server: RedisServer,
  admin: Redis,
  { database, keyPrefix }: Place,
): Promise<void> {
  const url = `${server.url.replace('redis://', 'redis://locks:secret@')}/${database}`;
  // Quarantined for about the ttlMax; the node timeout is one for a machine that is busy.
  const options = { keyPrefix, quarantine: true, ttlMax: 1_000, nodeTimeout: 250 };
  const sets = [1, 2].map(() => createNodes([url], resolveOptions(options, 1)));
  await Promise.all(sets.map((nodes) => nodes.whenReady(5_000)));
  const [holder, waiter] = sets.map((nodes) => new Redlock(nodes.nodes, options));
  try {
    const lock = await holder?.acquire('r', 900, { wait: 3_000 });
    // Of one tick, which is one call.
    const pair = ['a', 'b'].map(async (resource) => {
      await (await holder?.acquire(resource, 900))?.release();
    });
    await Promise.all(pair);
    // By more than it was given, so that there is something to write.
    await lock?.extend(1_000);
    const waiting = waiter?.acquire('r', 1_000, { wait: 3_000 });
    expect((await holder?.inspect('r'))?.state).toBe('held');
    await subscribed(admin, keyPrefix);
    await lock?.release();
    await (await waiting)?.release();
    expect((await holder?.inspect('r'))?.state).toBe('free');
  } finally {
    await Promise.all([holder?.close(), waiter?.close()]);
    await Promise.all(sets.map((nodes) => nodes.close()));
  }
}

/** Resolves when the waiter has subscribed; with a user who may not, while the lock is held. */
async function subscribed(admin: Redis, keyPrefix: string): Promise<void> {
  for (let look = 0; look < 70; look += 1) {
    const channels = (await admin.call('PUBSUB', [
      'CHANNELS',
      `${keyPrefix}redlock:wake:*`,
    ])) as string[];
    if (channels.length > 0) return;
    await setTimeout(10);
  }
}
