// The scripts as a server runs them: what they write, in which order, and what they refuse.
import { beforeEach, describe, expect, it } from '@jest/globals';

import { once } from 'node:events';

import type { AcquireAnswer, ExtendAnswer, OwnerRequest } from '../../lib/core/lock-node.js';
import {
  readAcquired,
  readCertified,
  readExtended,
  readInspected,
  readReleased,
  type Certified,
} from '../../lib/nodes/redis-replies.js';
import {
  certifyArguments,
  ownerArguments,
  type ScriptArguments,
} from '../../lib/nodes/redis-script-arguments.js';
import { scriptsOf, type RedisScript } from '../../lib/nodes/redis-scripts.js';
import { afterTest } from '../support/after-test.js';
import { requestFor, worldOf } from '../support/node-harness.js';
import { client, connect } from '../support/redis-of-spec.js';
import { saidIn, TAG } from '../support/scripts-at.js';
import { replidOf } from '../support/server-info.js';

const CERTIFICATE = 'redlock:node';
const quarantined = worldOf({ quarantine: true });
const M = quarantined.quarantine;

beforeEach(async () => {
  await client.config('SET', 'maxmemory', '0');
  await client.flushall();
});

function run(script: RedisScript, args: ScriptArguments, on = client): Promise<unknown> {
  return on.call('eval', [script.text, ...args]);
}

async function acquire(request: OwnerRequest, isPersistent = false): Promise<AcquireAnswer> {
  const script = scriptsOf(request.world, isPersistent).acquire;
  const reply = await run(script, ownerArguments(TAG, { name: 'acquire', request }));
  return readAcquired(saidIn(reply));
}

async function extend(request: OwnerRequest, on = client): Promise<ExtendAnswer> {
  const script = scriptsOf(request.world, false).extend;
  const reply = await run(script, ownerArguments(TAG, { name: 'extend', request }), on);
  return readExtended(saidIn(reply));
}

async function release(
  request: OwnerRequest,
  { wakes = true, isListening = false, on = client } = {},
): Promise<unknown> {
  const operation = { name: 'release', request: { ...request, wakes }, isListening } as const;
  const { release: script } = scriptsOf(request.world, false);
  return saidIn(await run(script, ownerArguments(TAG, operation), on));
}

async function certify(isPersistent = false, on = client): Promise<Certified | null> {
  const script = scriptsOf(quarantined, isPersistent).certify;
  return readCertified(await run(script, certifyArguments(quarantined, 3), on));
}

/** What is on record for the lock with this key. */
async function fenceOf(key: string, prefix = ''): Promise<string | null> {
  const hashes = ['even', 'odd'].map((parity) => `${prefix}redlock:fences:${parity}`);
  const fences = await Promise.all(hashes.map((hash) => client.hget(hash, key)));
  return fences.find((fence) => fence !== null) ?? null;
}

/** Writes the certificate of a node born `age` ms ago. */
async function bear(age: number, origin?: string): Promise<string> {
  const birth = (Date.now() - age) * 1_000;
  const certificate = `${origin ?? (await replidOf(client))}:${birth}`;
  await client.set(CERTIFICATE, certificate);
  return certificate;
}

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

    expect(readReleased(reply)).toEqual({ vote: 'done', listeners: 0 });
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
      { vote: 'done', listeners: 0 },
      { vote: 'done', listeners: 0 },
    ]);
    expect(await client.exists('r')).toBe(0);
  });

  it('stays quarantined', async () => {
    const old = requestFor({ world: quarantined });
    await fillMemory();

    const answers = [await certify(), await certify()];

    expect(answers).toMatchObject([{ quarantineRemaining: M }, { quarantineRemaining: M }]);
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

describe('quarantine (birth certificate)', () => {
  const request = (): OwnerRequest => requestFor({ world: quarantined });

  it('begins with the certificate step of a new node, before anybody asks for a lock', async () => {
    const certified = await certify();

    expect(certified).toMatchObject({ quarantineRemaining: M, isOriginKnown: true });
    expect(await client.get(CERTIFICATE)).toBe(`${await replidOf(client)}:${certified?.nodeTime}`);
    expect(await client.ttl(CERTIFICATE)).toBe(-1);
  });

  it('stores the lock all the same', async () => {
    const asked = request();

    const answer = await acquire(asked);

    expect(answer).toEqual({ vote: 'quarantined', remaining: M });
    expect(await client.get('r')).toBe(asked.ownerId);
  });

  it('counts down, and ends', async () => {
    await bear(M - 5_000);
    const during = await acquire(request());
    await client.del('r');
    await bear(M);
    const after = await acquire(request());

    expect(during.vote).toBe('quarantined');
    const remaining = during.vote === 'quarantined' ? during.remaining : 0;
    expect(remaining).toBeGreaterThan(4_000);
    expect(remaining).toBeLessThanOrEqual(5_000);
    expect(after.vote).toBe('granted');
  });

  it('holds for an extension that finds all its keys', async () => {
    const asked = request();
    await acquire(asked);

    const during = await extend(asked);
    await bear(M);
    const after = await extend(asked);

    expect([during.vote, after.vote]).toEqual(['quarantined', 'granted']);
  });

  it('does not hide that an extension found a key gone', async () => {
    const answer = await extend(request());

    expect(answer).toEqual({ vote: 'revoked' });
    expect(await client.exists(CERTIFICATE)).toBe(1);
  });

  it('begins again after FLUSHALL', async () => {
    await bear(M);
    await client.flushall();

    expect((await acquire(request())).vote).toBe('quarantined');
  });

  it.each([
    ['of another history', () => Promise.resolve('a'.repeat(40))],
    ['whose history is cut off', async () => (await replidOf(client)).slice(0, -1)],
  ])('begins again with data %s', async (_, origin) => {
    await bear(M, await origin());

    const answer = await acquire(request());

    expect(answer.vote).toBe('quarantined');
    expect(await client.get(CERTIFICATE)).toMatch(`${await replidOf(client)}:`);
  });

  it('does not begin with another history on a node declared persistent', async () => {
    const certificate = await bear(M, 'a'.repeat(40));

    const answer = await acquire(request(), true);

    expect(answer.vote).toBe('granted');
    expect(await client.get(CERTIFICATE)).toBe(certificate);
  });

  it('begins on a persistent node that has no certificate', async () => {
    expect((await acquire(request(), true)).vote).toBe('quarantined');
  });

  it('begins again when the clock was set back behind the birth', async () => {
    await bear(-2_000);

    expect(await certify()).toMatchObject({ quarantineRemaining: M });
  });

  it('bears a clock that is behind the birth by less than a second', async () => {
    const certificate = await bear(-500);

    const certified = await certify();

    expect(certified?.quarantineRemaining).toBeGreaterThan(M);
    expect(await client.get(CERTIFICATE)).toBe(certificate);
  });

  it('begins again when the certificate is not one', async () => {
    await client.set(CERTIFICATE, 'nonsense');

    expect((await acquire(request())).vote).toBe('quarantined');
  });

  it('begins with no certificate that a replica writes, which votes as if it refused writes', async () => {
    await client.config('SET', 'replica-read-only', 'no');
    await client.replicaof('127.0.0.1', 1);
    afterTest(() => client.replicaof('NO', 'ONE'));

    const answers = await Promise.allSettled([acquire(request()), extend(request())]);
    const certified = await certify();

    expect(answers.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(answers.map((answer) => 'reason' in answer && String(answer.reason))).toEqual([
      expect.stringContaining('READONLY It is a replica.'),
      expect.stringContaining('READONLY It is a replica.'),
    ]);
    expect(certified?.quarantineRemaining).toBe(M);
    expect(await client.exists(CERTIFICATE, 'r')).toBe(0);
  });

  it('goes by the certificate alone where INFO is denied inside scripts', async () => {
    await client.call('ACL', ['SETUSER', 'blind', 'on', '>pw', '~*', '+@all', '-info']);
    const blind = connect({ username: 'blind', password: 'pw', enableReadyCheck: false });

    const fresh = await certify(false, blind);
    await bear(M, 'a'.repeat(40));
    const old = await certify(false, blind);

    expect(fresh).toMatchObject({ quarantineRemaining: M, isOriginKnown: false });
    expect(old).toMatchObject({ quarantineRemaining: 0, isOriginKnown: false });
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
    for (const ear of ears) await ear.subscribe('redlock:wake:b');
    await ears[0]?.subscribe('redlock:wake:a');
    const request = requestFor({ resources: ['a', 'b', 'c'] });
    await acquire(request);

    const reply = await release(request);

    expect(readReleased(reply)).toEqual({ vote: 'done', listeners: 2 });
  });

  it('counts only the others where its own process listens too', async () => {
    const ears = [connect(), connect(), connect()];
    for (const ear of ears) await ear.subscribe('redlock:wake:r');
    const heard = ears.map((ear) => once(ear, 'message'));
    const request = requestFor();
    await acquire(request);

    const reply = await release(request, { isListening: true });

    expect(readReleased(reply)).toEqual({ vote: 'done', listeners: 2 });
    expect(await Promise.all(heard)).toEqual(ears.map(() => ['redlock:wake:r', '2']));
  });

  it('finds their channel behind a key prefix of any characters', async () => {
    const ear = connect();
    await ear.subscribe('größe:redlock:wake:r');
    const request = requestFor({ world: worldOf({ keyPrefix: 'größe:' }) });
    await acquire(request);

    const reply = await release(request);

    expect(readReleased(reply)).toEqual({ vote: 'done', listeners: 1 });
  });

  it.each([
    ['count', '-pubsub', 0],
    ['tell', '-publish', 1],
  ])('is done without the right to %s them (%s)', async (_, right, listeners) => {
    await client.acl('SETUSER', 'mute', 'reset', 'on', '>secret', '~*', '&*', '+@all', right);
    const mute = connect({ username: 'mute', password: 'secret' });
    await connect().subscribe('redlock:wake:r');
    const request = requestFor();
    await acquire(request);

    const reply = await release(request, { on: mute });

    expect(readReleased(reply)).toEqual({ vote: 'done', listeners });
    expect(await client.exists('r')).toBe(0);
  });
});
