// What must not go wrong where names come from strangers and logs go to many.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Body, Controller, Post } from '@nestjs/common';
import { Redis } from 'ioredis';
import { Locked, RedlockModule, RedlockService, resource } from 'nestjs-locked';

import { Log, startPlain, startServer } from '../nest/support/applications.js';
import { aborted, rejection } from '../nest/support/events.js';
import { MemoryNode } from '../../lib/nodes/memory-node.js';
import type { LockNode } from '../../lib/core/lock-node.js';
import type { RedlockOptions } from '../../lib/core/options.js';
import { Redlock } from '../../lib/core/redlock.js';
import type { NodeInput, NodeSet } from '../../lib/nodes/node-inputs.js';
import { FaultyNode } from '../../lib/testing/faulty-node.js';
import { eventually } from '../support/eventually.js';
import { testNodes } from '../support/node-harness.js';
import { client, server } from '../support/redis-of-spec.js';
import { startRedisServer } from '../support/redis-servers.js';

// A busy machine must not decide.
const patient = { nodeTimeout: 2_000, ttl: 10_000 };

describe('the log', () => {
  it('names no resource, no owner and no password, also when nodes go and locks are lost', async () => {
    const mortal = await startRedisServer();
    const admin = new Redis(mortal.url);
    await admin.call('ACL', ['SETUSER', 'locks', 'on', '>hunter2', '~*', '&*', '+@all']);
    const log = new Log();
    const url = mortal.url.replace('redis://', 'redis://locks:hunter2@');
    const imports = [RedlockModule.forRoot([url], { ttl: 1_000, nodeTimeout: 250, wait: 0 })];
    const redlock = (await startPlain({ imports }, log)).get(RedlockService);
    const owners: string[] = [];

    const lost = await rejection(
      redlock.using('user:alice@example.com', async ({ ownerId, signal }) => {
        owners.push(ownerId);
        expect(await redlock.tryAcquire('user:bob@example.com')).not.toBeNull();
        expect(await redlock.tryAcquire('user:bob@example.com')).toBeNull();
        await mortal.stop();
        await aborted(signal);
      }),
    );
    const refused = await rejection(redlock.acquire('user:carol@example.com'));
    admin.disconnect();

    expect([lost, refused]).toMatchObject([{ code: 'LOCK_LOST' }, { code: 'NO_QUORUM' }]);
    const lines = JSON.stringify(log.lines);
    expect(lines).toContain('Lost a lock');
    for (const secret of ['alice', 'bob', 'carol', 'hunter2', ...owners]) {
      expect(lines).not.toContain(secret);
    }
  });
});

const hostile: readonly (readonly [kind: string, name: string])[] = [
  ['a newline', 'a\r\nb'],
  ['NUL', 'a\0b'],
  ['a RESP command', 'x\r\n*1\r\n$8\r\nFLUSHALL\r\n'],
  ['Lua', `x" redis.call('FLUSHALL') --`],
  ['a Lua long bracket', ']]redis.call("FLUSHALL")--[['],
  ['a Lua pattern', '%s*(.-)%z'],
  ['a glob', '*'],
  ['an open bracket of a glob', '['],
  ['a hash tag', '{a}:{b'],
  ['__proto__', '__proto__'],
  ['constructor', 'constructor'],
  ['toString', 'toString'],
  ['a Cyrillic look-alike of admin', '\u0430dmin'],
  ['a decomposed form of another name', 'cafe\u0301'],
  ['a right-to-left override', 'a\u202eb'],
  ['512 characters', '\u{1F512}'.repeat(256)],
];
const cases: readonly (readonly [kind: string, resources: string | readonly string[]])[] = [
  ...hostile,
  ['all of these together', hostile.map(([, name]) => name)],
];
const others = ['admin', 'caf\u00e9', 'a', 'ab', 'x'];

const worlds = [
  { of: 'a usual world', world: {} },
  { of: 'a hostile key prefix', world: { keyPrefix: '\u{1F512}%s*[{"\r\n\0' } },
  { of: 'a world without fencing', world: { fencing: false } },
];
const places = ['Redis', 'memory'].flatMap((kind) => worlds.map((each) => ({ kind, ...each })));

describe.each(places)('a resource named by a stranger, on a $kind node of $of', (place) => {
  const options: RedlockOptions = { ...patient, ...place.world };
  const isOnRedis = place.kind === 'Redis';
  // Long, so that only who is woken by the release is in time.
  const poll = 5_000;
  const sets: NodeSet[] = [];
  let redlock: Redlock;
  /** What another process has: connections of its own, here seen through a `door`. */
  let other: Redlock;
  let door: FaultyNode;

  beforeAll(async () => {
    const input: NodeInput = isOnRedis ? server.url : new MemoryNode();
    const open = async (): Promise<LockNode> => {
      const set = testNodes([input], options);
      sets.push(set);
      await set.whenReady(5_000);
      return set.node;
    };
    redlock = new Redlock([await open()], options);
    door = new FaultyNode({ node: await open() });
    const retryDelay = { min: poll, max: poll };
    other = new Redlock([door], { ...options, retryDelay, wait: 2 * poll });
  });

  afterAll(async () => {
    await Promise.all([redlock.close(), other.close()]);
    await Promise.all(sets.map((set) => set.close()));
  });

  it.each(cases)('%s is a name like any other', async (_kind, resources) => {
    const names = [resources].flat();
    const keys = names.map((name) => (options.keyPrefix ?? '') + name);
    await client.set('canary', 'alive');
    const lock = await redlock.acquire(resources);

    const second = await Promise.all(names.map((name) => other.tryAcquire(name)));
    const free = await Promise.all(others.map((name) => other.tryAcquire(name)));
    const stored = await client.mget(keys);
    await lock.extend();
    await lock.release();
    for (const each of free) await each?.release();
    const after = await Promise.all(names.map((name) => redlock.inspect(name)));

    expect(second).toEqual(names.map(() => null));
    expect(free.map((each) => each?.resources)).toEqual(others.map((name) => [name]));
    expect(stored).toEqual(names.map(() => (isOnRedis ? lock.ownerId : null)));
    expect(await client.get('canary')).toBe('alive');
    expect(after).toMatchObject(names.map(() => ({ state: 'free' })));
  });

  it.each(cases)(
    '%s is a channel like any other: its release is heard',
    async (_kind, resources) => {
      door.calls.length = 0;
      const lock = await redlock.acquire(resources);
      const releaseOnceAwaited = async (): Promise<number> => {
        // The second attempt is the one that follows when no release goes unheard any more. The
        // answer to an inspection comes after its refusal.
        await eventually(() => door.count('acquire') >= 2);
        await other.inspect('r');
        const releasedAt = performance.now();
        await lock.release();
        return releasedAt;
      };

      const [next, releasedAt] = await Promise.all([
        other.acquire(resources),
        releaseOnceAwaited(),
      ]);
      const heardWithin = performance.now() - releasedAt;
      await next.release();

      expect(heardWithin).toBeLessThan(poll / 2);
    },
  );

  it('of megabytes is refused at once, and not repeated in the message', async () => {
    const { message } = (await rejection(redlock.acquire('x'.repeat(2 ** 22)))) as Error;

    expect(message).toContain('at most 512 characters, got 4194304');
    expect(message.length).toBeLessThan(200);
  });
});

describe('a resource taken from a request', () => {
  let ran: unknown[];

  beforeEach(() => {
    ran = [];
  });

  @Controller()
  class Orders {
    @Post()
    @Locked((order: { id: string }) => order.id)
    async pay(@Body() order: { id: string }): Promise<string> {
      ran.push(order.id);
      return 'paid';
    }
  }

  const post = (url: string, id: unknown): Promise<Response> =>
    fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ id }),
    });

  it.each([[{ $ne: '' }], [7], [null], [[{ a: 1 }]], [['']], ['redlock:node'], ['x'.repeat(513)]])(
    'is never an object, a number or a reserved name: %j runs nothing',
    async (id) => {
      const { url } = await startServer({ controllers: [Orders] });

      const answer = await post(url, id);

      expect(answer.status).toBe(500);
      expect(ran).toEqual([]);
    },
  );

  it.each([[['a', 'b']], [{ a: 1 }], [null], [''], [undefined]])(
    'is not made of %j by a template: nothing runs',
    async (id) => {
      @Controller()
      class Payments {
        @Post()
        @Locked((order: { id: string }) => resource`order:${order.id}`)
        async pay(@Body() order: { id: string }): Promise<string> {
          ran.push(order.id);
          return 'paid';
        }
      }
      const { url } = await startServer({ controllers: [Payments] });

      const answer = await post(url, id);

      expect(answer.status).toBe(500);
      expect(ran).toEqual([]);
    },
  );

  it.each(hostile)('is taken and free as any other: %s', async (_kind, name) => {
    const { application, url } = await startServer({ controllers: [Orders] }, { wait: 0 });
    const locks = await application.get(RedlockService).acquire([name, 'harmless']);

    const harmless = await post(url, 'harmless');
    const taken = await post(url, name);
    await locks.release();
    const free = await post(url, name);

    expect(taken.status).toBe(423);
    expect([...taken.headers.keys()]).toEqual([...harmless.headers.keys()]);
    expect(taken.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(await taken.json()).toEqual({
      statusCode: 423,
      message: 'The resource is locked by another call',
      error: 'LOCK_TAKEN',
    });
    expect([free.status, await free.text()]).toEqual([201, 'paid']);
    expect(ran).toEqual([name]);
  });
});
