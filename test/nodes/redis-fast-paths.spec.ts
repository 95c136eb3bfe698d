// What a server runs for one lock by itself, and when it must look closer.
import { beforeEach, describe, expect, it } from '@jest/globals';

import { fencesIn } from '../../lib/nodes/redis-fences.js';
import { ACQUIRE, RELEASE } from '../../lib/nodes/redis-operations.js';
import { batchArguments, ownerArguments } from '../../lib/nodes/redis-script-arguments.js';
import type { OwnerRequest, World } from '../../lib/core/lock-node.js';
import {
  acquire,
  commandsOf,
  fenced,
  handOver,
  R,
  release,
  releaseOf,
  requestOf,
  S,
  START,
} from './timed-calls.js';
import { worldOf } from '../support/node-harness.js';
import { client, connect } from '../support/redis-of-spec.js';
import { runAt, TAG } from '../support/scripts-at.js';

const quarantined = worldOf({ quarantine: true });

beforeEach(async () => {
  await client.flushall();
});

/** What comes before the functions that all cases need; it answers with null where they are needed. */
const atOnce =
  (world: World) =>
  (text: string): string => {
    const functions = [fencesIn(world), ACQUIRE, RELEASE].map((part) => text.indexOf(part));
    return text.slice(0, Math.min(...functions.filter((place) => place > 0)));
  };

describe.each([
  ['with fencing', worldOf()],
  ['without fencing', worldOf({ fencing: false })],
  ['with fencing and quarantine', { ...worldOf(), quarantine: 10 }],
  ['with quarantine alone', { ...worldOf({ fencing: false }), quarantine: 10 }],
])('before the functions are made, %s', (_, world) => {
  const now = START + 10_000;
  const settings = { of: world, edit: atOnce(world) };
  const [first, second] = [requestOf(world, now), requestOf(world, now + 1)];
  const acquisition = (request: OwnerRequest): ReturnType<typeof ownerArguments> =>
    ownerArguments(TAG, { name: 'acquire', request });

  beforeEach(async () => {
    await acquire(START, requestOf(world, START, 'of the period'));
  });

  it('a lock is acquired, refused to others and released', async () => {
    const granted = await runAt(now, 'acquire', acquisition(first), settings);
    const refused = await runAt(now, 'acquire', acquisition(second), settings);
    const released = await runAt(
      now,
      'release',
      ownerArguments(TAG, releaseOf(first, true)),
      settings,
    );

    expect(typeof granted).toBe('number');
    expect(refused).toEqual([granted, 'taken', expect.any(Number), 0, first.ownerId]);
    expect(released).toBe(0);
    expect(await client.exists('r')).toBe(0);
  });

  it('it is handed on', async () => {
    await acquire(now, first);
    const operations = [releaseOf(first, false), { name: 'acquire', request: second } as const];

    const reply = await runAt(now, 'batch', batchArguments(TAG, world, operations), settings);

    expect(typeof reply).toBe('number');
    expect(await client.get('r')).toBe(second.ownerId);
  });
});

describe('a lock by itself', () => {
  it.each([
    ['even', START],
    ['odd', START + R],
  ])('is acquired by six commands and released by three, in an %s period', async (_, now) => {
    await acquire(now, requestOf(fenced, now, 'of the period'));
    const request = requestOf(fenced, now + 1);

    const acquired = await commandsOf(() => acquire(now, request));
    const released = await commandsOf(() => release(request));

    expect(acquired).toEqual({ get: 1, hmget: 2, set: 1, hset: 1 });
    expect(released).toEqual({ get: 1, del: 1, 'pubsub|numsub': 1 });
  });

  it('is released by two where nobody is to be told', async () => {
    const request = requestOf(fenced, START);
    await acquire(START, request);

    const released = await commandsOf(() => release(request, false));

    expect(released).toEqual({ get: 1, del: 1 });
  });

  it('is released by five where others are told', async () => {
    await connect().subscribe('redlock:wake:', 'redlock:wake:r');
    const request = requestOf(fenced, START);
    await acquire(START, request);

    const released = await commandsOf(() => release(request));

    expect(released).toEqual({ get: 1, 'pubsub|numsub': 2, del: 1, publish: 1 });
  });

  it('is asked for by two where another has it', async () => {
    await acquire(START, requestOf(fenced, START));

    const refused = await commandsOf(() => acquire(START, requestOf(fenced, START + 1)));

    expect(refused).toEqual({ get: 1, pttl: 1 });
  });
});

describe('the first acquisition', () => {
  it.each([
    ['of a period', START + 2 * R],
    ['after the clock was set back by a year', START - 365 * 86_400_000_000],
  ])('%s says until when the records are kept', async (_, now) => {
    await acquire(START, requestOf(fenced, START, 'before'));
    const period = Math.floor(now / R);
    const hash = period % 2 === 0 ? 'redlock:fences:even' : 'redlock:fences:odd';

    const answer = await acquire(now, requestOf(fenced, now));

    expect(answer).toBe(now);
    expect(Number(await client.hget(hash, ''))).toBe((period + 2) * R);
  });
});

const warmUp = (): Promise<unknown> => acquire(START, requestOf(fenced, START, 'of the period'));

describe.each([
  ['at once', warmUp],
  ['by the operation, as the first of a period', () => client.del('redlock:fences:even')],
])('a token that is judged %s', (_, prepare) => {
  it.each([
    ['is granted within the window of the clock', START - S + 1, START],
    ['is granted at its upper end', START + S, START],
    ['is stale at its lower end', START - S, [START, 'stale', START - S]],
    ['is ahead beyond it', START + S + 1, [START, 'ahead', START - S]],
  ])('%s', async (__, token, expected) => {
    const [first, second] = [requestOf(fenced, token), requestOf(fenced, token, 'handed on')];
    await client.set('handed on', 'first');
    const from = { ...requestOf(fenced, START, 'handed on'), ownerId: 'first' };

    await prepare();
    const alone = await acquire(START, first);
    await prepare();
    const handedOn = await handOver(START, from, second);

    expect(alone).toEqual(expected);
    const entry = Array.isArray(expected) ? [START, 0, expected.slice(1)] : START;
    expect(handedOn).toEqual(entry);
  });
});

describe('a token that is judged by its records', () => {
  beforeEach(warmUp);

  it.each(['even', 'odd'])('is stale where the record of the %s period says so', async (parity) => {
    await client.hset(`redlock:fences:${parity}`, { r: START + 10 });

    const answers = [
      await acquire(START, requestOf(fenced, START + 10)),
      await acquire(START, requestOf(fenced, START + 11)),
    ];

    expect(answers).toEqual([[START, 'stale', START + 10], START]);
  });

  it.each(['even', 'odd'])('is refused where the %s period has no records', async (parity) => {
    const [first, second] = [requestOf(fenced, START), requestOf(fenced, START + 1, 'handed on')];
    await client.set(`redlock:fences:${parity}`, 'no hash');
    await client.set('handed on', 'first');

    await expect(acquire(START, first)).rejects.toThrow(/^WRONGTYPE/);
    const reply = await handOver(START, { ...second, ownerId: 'first' }, second);

    expect(reply).toEqual([START, 0, ['error', expect.stringMatching(/^WRONGTYPE/)]]);
    expect(await client.exists('r', 'handed on')).toBe(0);
  });
});

describe('a node in quarantine', () => {
  it('does not vote by a fast path, nor after it lost its certificate', async () => {
    const brief = { ...quarantined, quarantine: 10 };
    const votes: unknown[] = [];
    for (const now of [START, START + 9_999, START + 10_000]) {
      votes.push(await acquire(now, requestOf(brief, now, `lock at ${now}`)));
    }
    await client.del('redlock:node');
    const answer = await acquire(START + 20_000, requestOf(brief, START + 20_000));

    // Never that none of it is left.
    expect(votes).toEqual([
      [START, 'quarantined', 10],
      [START + 9_999, 'quarantined', 1],
      START + 10_000,
    ]);
    expect(answer).toEqual([START + 20_000, 'quarantined', 10]);
    expect(await client.get('redlock:node')).toMatch(`:${START + 20_000}`);
  });
});

describe('a user without the right to write records', () => {
  it('gets no lock, at once or handed on', async () => {
    const first = requestOf(fenced, START);
    await acquire(START, first);
    const rights = ['reset', 'on', '>secret', '~*', '&*', '+@all', '-hset'];
    await client.call('ACL', ['SETUSER', 'weak', ...rights]);
    const weak = connect({ username: 'weak', password: 'secret' });
    const alone = requestOf(fenced, START + 1, 'other');
    const args = ownerArguments(TAG, { name: 'acquire', request: alone });

    const refusal = /can't run this command|no permissions/i;
    await expect(runAt(START, 'acquire', args, { on: weak })).rejects.toThrow(refusal);
    await expect(handOver(START, first, requestOf(fenced, START + 1), weak)).rejects.toThrow(
      refusal,
    );
  });
});
