// The scripts as a server runs them: what they write, in which order, and what they refuse.
import { beforeEach, describe, expect, it } from '@jest/globals';

import { once } from 'node:events';

import {
  readAcquired,
  readCertified,
  readExtended,
  readInspected,
  readReleased,
} from '../../lib/nodes/redis-replies.js';
import { scriptsOf, type RedisScript } from '../../lib/nodes/redis-scripts.js';
import { requestFor, worldOf } from '../support/node-harness.js';
import { client, connect } from '../support/redis-of-spec.js';
import { acquire, certify, extend, fenceOf, quarantined, release } from './script-calls.js';

beforeEach(async () => {
  await client.config('SET', 'maxmemory', '0');
  await client.flushall();
});

describe('the text of a script', () => {
  it('has the numbers of its world in it, and never the key prefix, which may be anything', () => {
    const world = worldOf({ keyPrefix: "it's", quarantine: true });

    for (const { text } of Object.values(scriptsOf(world, false)) as RedisScript[]) {
      expect(text).toContain(`${world.clockSkewMax * 1_000}`);
      expect(text).not.toContain("it's");
    }
  });
});

describe('what the scripts write', () => {
  it('is a lock with the owner and a fence record with the token, under their ttls', async () => {
    const world = worldOf({ keyPrefix: 'p:' });
    const request = requestFor({ world, resources: ['a', 'b'], ttl: 5_000 });

    await acquire(request);

    const [fences, ...others] = (await client.keys('*')).sort().reverse();
    expect(fences).toMatch(/^p:redlock:fences:(even|odd)$/);
    expect(others).toEqual(['p:b', 'p:a']);
    expect(await client.mget('p:a', 'p:b')).toEqual([request.ownerId, request.ownerId]);
    expect(await client.pttl('p:a')).toBeGreaterThan(4_500);
    expect(await fenceOf('p:a', 'p:')).toBe(`${request.token}`);
    expect(await fenceOf('p:b', 'p:')).toBe(`${request.token}`);
  });

  it('is the lock alone, and the clock is not asked, where fencing and quarantine are off', async () => {
    const request = requestFor({ world: worldOf({ fencing: false }), token: 0 });

    const answer = await acquire(request);

    expect(await client.keys('*')).toEqual(['r']);
    expect(answer).toEqual({ vote: 'granted', nodeTime: 0 });
  });

  it('is a tombstone where a release found nothing', async () => {
    const request = requestFor();

    const reply = await release(request);

    expect(readReleased(reply)).toEqual({ vote: 'done', listeners: 0, overdue: 0 });
    expect(await fenceOf('r')).toBe(`${request.token}`);
  });

  it('keeps every digit of a token', async () => {
    const token = Date.now() * 1_000 + 123;

    const first = await acquire(requestFor({ token }));
    await client.del('r');
    const second = await acquire(requestFor({ token }));

    expect(first.vote).toBe('granted');
    expect(second).toMatchObject({ vote: 'stale', low: token });
  });
});

describe('a node without memory', () => {
  async function fillMemory(): Promise<void> {
    await client.config('SET', 'maxmemory', '1');
  }

  it('refuses an acquisition and keeps nothing of it, not even its certificate', async () => {
    const request = requestFor({ world: quarantined, resources: ['a', 'b'] });
    await fillMemory();

    const answer = acquire(request);

    await expect(answer).rejects.toThrow(/^OOM /);
    expect(await client.keys('*')).toEqual([]);
  });

  it('still extends', async () => {
    const request = requestFor({ ttl: 1_000 });
    await acquire(request);
    await fillMemory();

    const answer = await extend({ ...request, ttl: 20_000 });

    expect(answer).toEqual({ vote: 'granted' });
    expect(await client.pttl('r')).toBeGreaterThan(19_000);
  });

  it('revokes what it lost, without an error', async () => {
    await fillMemory();

    const answer = await extend(requestFor());

    expect(answer).toEqual({ vote: 'revoked' });
    expect(await client.keys('*')).toEqual([]);
  });

  it('still releases', async () => {
    const request = requestFor();
    await acquire(request);
    await fillMemory();

    const replies = [await release(request), await release(requestFor())];

    expect(replies.map(readReleased)).toEqual([
      { vote: 'done', listeners: 0, overdue: 0 },
      { vote: 'done', listeners: 0, overdue: 0 },
    ]);
    expect(await client.exists('r')).toBe(0);
  });

  it('stays quarantined', async () => {
    const old = requestFor({ world: quarantined });
    await fillMemory();

    const answers = [await certify(), await certify()];

    expect(answers).toMatchObject([
      { quarantineRemaining: quarantined.quarantine },
      { quarantineRemaining: quarantined.quarantine },
    ]);
    await expect(acquire(old)).rejects.toThrow(/^OOM /);
  });
});

describe('an extension', () => {
  it('is not granted by a user without the right to PEXPIRE', async () => {
    await client.acl('SETUSER', 'stiff', 'reset', 'on', '>secret', '~*', '+@all', '-pexpire');
    const stiff = connect({ username: 'stiff', password: 'secret' });
    const request = requestFor({ ttl: 1_000 });
    await acquire(request);

    const answer = extend({ ...request, ttl: 20_000 }, stiff);

    await expect(answer).rejects.toThrow(/can't run this command|no permissions/i);
  });

  it('gives a ttl to a key that somebody has made to last for ever', async () => {
    const request = requestFor({ ttl: 1_000 });
    await acquire(request);
    await client.persist('r');

    const { vote } = await extend(request);

    expect(vote).toBe('granted');
    expect(await client.pttl('r')).toBeGreaterThan(0);
  });

  it('is granted only by a key that it prolongs, also in its last millisecond', async () => {
    const request = requestFor({ ttl: 1_000 });
    const extendLate = async (): Promise<string> => {
      // In one packet: else a busy machine might find it gone each time.
      const stored = client.set('r', request.ownerId, 'PX', 1);
      const [, { vote }] = await Promise.all([stored, extend(request)]);
      return `${vote}, ${(await client.pttl('r')) > 500 ? 'kept' : 'gone'}`;
    };
    const votes = new Set<string>();

    for (let round = 0; round < 500; round += 1) votes.add(await extendLate());

    expect(votes).not.toContain('granted, gone');
    expect(votes).toContain('granted, kept');
  });
});

describe('an odd reply', () => {
  const unknown = { vote: 'failed', mayHold: true, isMisconfiguration: false };

  it.each([
    ...[null, 'OK', -1, 2 ** 60, [], [1, 'what'], [null, null], [1, 2, 3]],
    ...[
      [1, 'stale', 'x'],
      [1, 'taken', 1.5],
      [1, 'quarantined', 2 ** 60],
    ],
  ])('is a failure that may hold the key: %j', (reply) => {
    for (const read of [readAcquired, readExtended, readReleased]) {
      expect(read(reply)).toMatchObject(unknown);
    }
  });

  it.each([null, 'x', ['owner'], [null, -2], [7, 7, ''], ['owner', '7', '']])(
    'does not pass for an owner: %j',
    (reply) => {
      expect(readInspected(reply)).toMatchObject({ vote: 'failed' });
    },
  );

  it.each([null, 'x', ['1', 2, 1, ''], [1, '2', 1, ''], [1, 2 ** 60, 1, ''], [1, 2, 1]])(
    'does not pass for a certificate: %j',
    (reply) => {
      expect(readCertified(reply)).toBeNull();
    },
  );
});

describe('a release that tells those who listen', () => {
  it('counts them on each channel, and gives the most', async () => {
    const ears = [connect(), connect()];
    for (const ear of ears) await ear.subscribe('redlock:wake:', 'redlock:wake:b');
    await ears[0]?.subscribe('redlock:wake:a', 'redlock:wake:c');
    const request = requestFor({ resources: ['a', 'b', 'c'] });
    await acquire(request);

    const reply = await release(request);

    expect(readReleased(reply)).toEqual({ vote: 'done', listeners: 2, overdue: 0 });
  });

  it('counts only the others where its own process listens too', async () => {
    const ears = [connect(), connect(), connect()];
    for (const ear of ears) await ear.subscribe('redlock:wake:', 'redlock:wake:r');
    const heard = ears.map((ear) => once(ear, 'message'));
    const request = requestFor();
    await acquire(request);

    const reply = await release(request, { isListening: true });

    expect(readReleased(reply)).toEqual({ vote: 'done', listeners: 2, overdue: 0 });
    expect(await Promise.all(heard)).toEqual(ears.map(() => ['redlock:wake:r', '2']));
  });

  it('finds their channel behind a key prefix of any characters', async () => {
    const ear = connect();
    await ear.subscribe('größe:redlock:wake:', 'größe:redlock:wake:r');
    const request = requestFor({ world: worldOf({ keyPrefix: 'größe:' }) });
    await acquire(request);

    const reply = await release(request);

    expect(readReleased(reply)).toEqual({ vote: 'done', listeners: 1, overdue: 0 });
  });

  it.each([
    ['count', '-pubsub', 0],
    ['tell', '-publish', 1],
  ])('is done without the right to %s them (%s)', async (_, right, listeners) => {
    await client.acl('SETUSER', 'mute', 'reset', 'on', '>secret', '~*', '&*', '+@all', right);
    const mute = connect({ username: 'mute', password: 'secret' });
    await connect().subscribe('redlock:wake:', 'redlock:wake:r');
    const request = requestFor();
    await acquire(request);

    const reply = await release(request, { on: mute });

    expect(readReleased(reply)).toEqual({ vote: 'done', listeners, overdue: 0 });
    expect(await client.exists('r')).toBe(0);
  });
});
