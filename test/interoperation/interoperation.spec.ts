// Whoever locks the same key by the Redlock text, on the same servers, excludes us and we them.
import { readFileSync } from 'node:fs';
import { setImmediate, setTimeout } from 'node:timers/promises';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import * as semaphore from 'redis-semaphore';
import * as redlock5 from 'redlock';
import Redlock4 from 'redlock-4';
import * as universal from 'redlock-universal';

import { resolveOptions } from '../../lib/core/options.js';
import { Redlock } from '../../lib/core/redlock.js';
import { createNodes } from '../../lib/nodes/node-inputs.js';
import { installedServers, startRedisServers, type RedisServer } from '../support/redis-servers.js';
import { adaptersOf, rivals } from './rivals.js';

describe.each(installedServers())('on %s', (command) => {
  // Without quarantine: the servers are new.
  const options = { quarantine: false, nodeTimeout: 500 };
  const closings: (() => Promise<void>)[] = [];
  let servers: RedisServer[];
  let redlock: Redlock;
  let clients: Redis[];

  const startOurs = async (keyPrefix: string): Promise<Redlock> => {
    const given = { ...options, keyPrefix };
    const urls = servers.map(({ url }) => url);
    const nodes = createNodes(urls, resolveOptions(given, 3));
    await nodes.whenReady(5_000);
    const ours = new Redlock(nodes.nodes, given);
    closings.push(async () => {
      await ours.close();
      await nodes.close();
    });
    return ours;
  };

  beforeAll(async () => {
    servers = await startRedisServers(3, { command });
    redlock = await startOurs('');
    clients = servers.map(({ url }) => new Redis(url));
  });

  afterAll(async () => {
    await Promise.all(closings.map((close) => close()));
    for (const client of clients) client.disconnect();
    await Promise.all(servers.map((server) => server.stop()));
  });

  it('a lock is the key with the owner as its value and the ttl as its expiry, on each node', async () => {
    await using lock = await redlock.acquire('as-in-the-text', 10_000);

    for (const client of clients) {
      expect(await client.get('as-in-the-text')).toBe(lock.ownerId);
      const remaining = await client.pttl('as-in-the-text');
      expect(remaining).toBeGreaterThan(0);
      expect(remaining).toBeLessThanOrEqual(10_000);
    }
  });

  it('who locks by the manager of redlock-universal locks the first node alone, and not us out', async () => {
    const manager = new universal.LockManager({ nodes: adaptersOf(clients) });
    const handles = await manager.acquireBatch(['batch 1', 'batch 2']);
    handles.push(await manager.acquireLock('single'));

    const resources = handles.map(({ key }) => key);
    const holders = await Promise.all(clients.map((client) => client.exists(...resources)));
    await using lock = await redlock.tryAcquire(resources);

    expect(holders).toEqual([3, 0, 0]);
    expect(lock?.isValid).toBe(true);
    await manager.releaseBatch(handles);
  });

  it('who locks by hand is extended by redis-semaphore unasked, and by us if the call asks', async () => {
    // Refreshed after four fifths of that: a busy machine may be late by the rest.
    const mutex = new semaphore.RedlockMutex(clients, 'by hand', { lockTimeout: 2_500 });
    await mutex.acquire();
    await using plain = await redlock.acquire('by hand', 1_000);
    await using watched = await redlock.acquire('watched', 1_000, { watchdog: true });

    await setTimeout(3_000);

    expect(await redlock.tryAcquire('mutex:by hand')).toBeNull();
    expect(plain.isValid).toBe(false);
    expect(watched.isValid).toBe(true);
    await mutex.release();
  });

  it('who names no resource runs without a lock by redlock, and is refused by us', async () => {
    const theirs = new redlock5.default(clients);

    expect(await theirs.using([], 1_000, {}, async () => 'ran')).toBe('ran');
    await expect(redlock.using([], {}, () => 'ran')).rejects.toThrow(TypeError);
  });

  it('who extends by less than is left shortens the lock of others, and not ours', async () => {
    const four = await new Redlock4(clients).lock('redlock 4', 10_000);
    const five = await new redlock5.default(clients).acquire(['redlock 5'], 10_000);
    const universals = universal.createRedlock({
      adapters: adaptersOf(clients),
      key: 'universal',
      ttl: 10_000,
    });
    const handle = await universals.acquire();
    await using ours = await redlock.acquire('ours', 10_000);

    await Promise.all([four.extend(1_000), five.extend(1_000), ours.extend(1_000)]);
    await universals.extend(handle, 1_000);

    for (const client of clients) {
      for (const key of ['redlock 4', 'redlock 5', 'universal']) {
        expect(await client.pttl(key)).toBeLessThanOrEqual(1_000);
      }
      expect(await client.pttl('ours')).toBeGreaterThan(1_000);
    }
    expect(ours.remaining).toBeGreaterThan(1_000);
  });

  it('who releases what another has taken is told by redlock, and by us at an extension', async () => {
    const settings = { retryCount: 0 };
    const five = await new redlock5.default(clients, settings).acquire(['overwritten'], 10_000);
    const overwrite = async (): Promise<void> => {
      for (const client of clients) await client.set('overwritten', 'another', 'PX', 10_000);
    };
    const clear = (): Promise<number[]> =>
      Promise.all(clients.map((client) => client.del('overwritten')));
    await overwrite();
    await expect(five.release()).rejects.toThrow(redlock5.ExecutionError);
    await clear();

    const body = redlock.using('overwritten', {}, async () => {
      await overwrite();
      return 'ended';
    });
    await expect(body).resolves.toBe('ended');
    expect(await clients[0]?.get('overwritten')).toBe('another');
    await clear();

    await using lock = await redlock.acquire('overwritten', 10_000);
    await overwrite();
    await expect(lock.extend()).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
    await lock.release();
    expect(await clients[0]?.get('overwritten')).toBe('another');
  });

  describe.each(rivals)('$name', (rival) => {
    it('is refused what we hold, and gets it when we have released it', async () => {
      const lock = await redlock.acquire(rival.keyOf('ours'), 10_000);

      const refused = await rival.acquire(clients, 'ours');
      const isStillOurs = (await redlock.inspect(rival.keyOf('ours'))).state === 'held';
      await lock.release();
      const release = await rival.acquire(clients, 'ours');

      expect(refused).toBeNull();
      expect(isStillOurs).toBe(true);
      expect(release).not.toBeNull();
      await release?.();
    });

    it('holds what we are refused, until it has released it', async () => {
      const release = await rival.acquire(clients, 'theirs');

      const refused = await redlock.tryAcquire(rival.keyOf('theirs'));
      const stillTheirs = await Promise.all(
        clients.map((client) => client.exists(rival.keyOf('theirs'))),
      );
      await release?.();
      const lock = await redlock.tryAcquire(rival.keyOf('theirs'));

      expect(refused).toBeNull();
      expect(stillTheirs).toEqual([1, 1, 1]);
      expect(lock?.isValid).toBe(true);
      await lock?.release();
    });

    it('keeps us out by a majority of the nodes, and by a minority does not', async () => {
      const releaseTwo = await rival.acquire(clients.slice(1), 'majority');
      const releaseOne = await rival.acquire(clients.slice(2), 'minority');

      const refused = await redlock.tryAcquire(rival.keyOf('majority'));
      const lock = await redlock.tryAcquire(rival.keyOf('minority'));
      const refusedToo = await rival.acquire(clients, 'minority');
      await Promise.all([releaseTwo?.(), releaseOne?.(), refused?.release(), lock?.release()]);

      expect(refused).toBeNull();
      expect(lock?.resources).toEqual([rival.keyOf('minority')]);
      expect(refusedToo).toBeNull();
    });

    it.each([
      { theirs: 'app:', keyPrefix: 'app:', prefix: '' },
      { theirs: 'redlock:', keyPrefix: 'red', prefix: 'lock:' },
    ])(
      'over clients with the keyPrefix $theirs is kept out by the keyPrefix $keyPrefix, and keeps us out',
      async ({ theirs, keyPrefix, prefix }) => {
        const prefixed = servers.map(({ url }) => new Redis(url, { keyPrefix: theirs }));
        const resource = `${prefix}${rival.keyOf('prefixed')}`;
        const ours = await startOurs(keyPrefix);

        const lock = await ours.acquire(resource, 10_000);
        const refused = await rival.acquire(prefixed, 'prefixed');
        await lock.release();
        const release = await rival.acquire(prefixed, 'prefixed');
        const refusedToo = await ours.tryAcquire(resource);
        const unprefixed = await redlock.tryAcquire(rival.keyOf('prefixed'));
        await Promise.all([release?.(), unprefixed?.release()]);
        for (const client of prefixed) client.disconnect();

        expect(refused).toBeNull();
        expect(release).not.toBeNull();
        expect(refusedToo).toBeNull();
        expect(unprefixed).not.toBeNull();
      },
    );

    it('never holds at the same time as we do, however close the race', async () => {
      const winners = { ours: 0, theirs: 0, nobody: 0 };

      for (let round = 0; round < 40; round += 1) {
        const resource = `${rival.name} ${round}`;
        // Each is first every other time; what we ask for goes out at the end of the tick.
        const ask = [
          () => redlock.tryAcquire(rival.keyOf(resource)),
          () => rival.acquire(clients, resource),
        ];
        if (round % 2 === 1) ask.reverse();
        const holders = await Promise.all(
          ask.map(async (acquire, place) => {
            if (place > 0) await setImmediate();
            return acquire();
          }),
        );

        expect(holders.filter((holder) => holder !== null).length).toBeLessThanOrEqual(1);
        const [winner] = holders.filter((holder) => holder !== null);
        if (winner === undefined) winners.nobody += 1;
        else if (typeof winner === 'function') winners.theirs += 1;
        else winners.ours += 1;
      }

      expect(winners.ours).toBeGreaterThan(0);
      expect(winners.theirs).toBeGreaterThan(0);
    });
  });
});

describe('the guide for those who come from another library', () => {
  const guide = readFileSync(new URL('../../docs/MIGRATION.md', import.meta.url), 'utf8');
  // Public by the language alone, and of no use to callers.
  const isInner = /^(_|constructor$|validateConfig$|getIdentifier$|getActiveLocks$|sleep$|cleanup)/;
  const methodsOf = (type: { prototype: object }): string[] => {
    const inherited: unknown = Object.getPrototypeOf(type.prototype);
    const owners = [type.prototype, ...(type === semaphore.Mutex ? [inherited as object] : [])];
    return owners.flatMap((owner) => Object.getOwnPropertyNames(owner));
  };

  const sectionOf = (heading: string): string =>
    guide.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';

  it.each([
    ['redlock (node-redlock) 4 and 5', [Redlock4, redlock5.default]],
    ['redis-semaphore', [semaphore.Mutex]],
    ['redlock-universal', [universal.LockManager]],
  ])('names each method of %s', (heading, types) => {
    const section = sectionOf(heading);
    const methods = types.flatMap(methodsOf).filter((name) => !isInner.test(name));

    expect(methods.length).toBeGreaterThan(4);
    expect(methods.filter((name) => !section.includes(name))).toEqual([]);
  });

  it.each([
    ['redlock (node-redlock) 4 and 5', [Redlock4, redlock5]],
    ['redis-semaphore', [semaphore]],
    ['redlock-universal', [universal]],
  ])('names each error of %s', (heading, libraries) => {
    const section = sectionOf(heading);
    const errors = libraries.flatMap(Object.keys).filter((name) => name.endsWith('Error'));

    expect(errors.length).toBeGreaterThan(1);
    expect(errors.filter((name) => !section.includes(`\`${name}\``))).toEqual([]);
  });
});
