// The scripts on a node in quarantine, and what its birth certificate says. PROTOCOL.md section 9.
import { beforeEach, describe, expect, it } from '@jest/globals';

import type { OwnerRequest } from '../../lib/core/lock-node.js';
import type { BatchedOperation } from '../../lib/nodes/redis-script-arguments.js';
import { asBatch } from './batch-calls.js';
import { afterTest } from '../support/after-test.js';
import { requestFor } from '../support/node-harness.js';
import { client, connect } from '../support/redis-of-spec.js';
import { replidOf } from '../support/server-info.js';
import { acquire, certify, CERTIFICATE, extend, quarantined } from './script-calls.js';

const M = quarantined.quarantine;

beforeEach(async () => {
  await client.flushall();
});

/** Writes the certificate of a node born `age` ms ago. */
async function bear(age: number, origin?: string): Promise<string> {
  const birth = (Date.now() - age) * 1_000;
  const certificate = `${origin ?? (await replidOf(client))}:${birth}`;
  await client.set(CERTIFICATE, certificate);
  return certificate;
}

describe('quarantine (birth certificate)', () => {
  const request = (): OwnerRequest => requestFor({ world: quarantined });
  const batchOfTwo = (): BatchedOperation[] =>
    ['a', 'b'].map((name) => ({
      name: 'acquire',
      request: requestFor({ world: quarantined, resources: [name] }),
    }));

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

  it('begins again at a replica that is promoted, which still knows the history of its data', async () => {
    const origin = await replidOf(client);
    await bear(M, origin);
    await client.replicaof('127.0.0.1', 1);
    await client.replicaof('NO', 'ONE');

    const answer = await acquire(request());

    expect(await client.info('replication')).toContain(`master_replid2:${origin}`);
    expect(answer.vote).toBe('quarantined');
  });

  it('begins with a batch too, which writes the certificate', async () => {
    const answers = await asBatch(batchOfTwo());

    expect(answers).toEqual(['quarantined', 'quarantined']);
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

    const answers = await Promise.allSettled([
      acquire(request()),
      extend(request()),
      asBatch(batchOfTwo()),
    ]);
    const certified = await certify();

    const refusal = expect.stringContaining('READONLY It is a replica.');
    expect(answers.map((answer) => 'reason' in answer && String(answer.reason))).toEqual([
      refusal,
      refusal,
      refusal,
    ]);
    expect(certified?.quarantineRemaining).toBe(M);
    expect(await client.exists(CERTIFICATE, 'r', 'a', 'b')).toBe(0);
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
