// What a server runs for a release and the acquisition that follows it in the same call.
import { beforeEach, describe, expect, it } from '@jest/globals';

import { batchArguments } from '../../lib/nodes/redis-script-arguments.js';
import {
  acquire,
  commandsOf,
  fenced,
  handOver,
  releaseOf,
  requestOf,
  START,
} from './timed-calls.js';
import { worldOf } from '../support/node-harness.js';
import { client, connect } from '../support/redis-of-spec.js';
import { runAt, TAG } from '../support/scripts-at.js';

const unfenced = worldOf({ fencing: false });

beforeEach(async () => {
  await client.flushall();
});

describe('a hand-over', () => {
  it('is as many commands as an acquisition', async () => {
    const [first, second] = [requestOf(fenced, START), requestOf(fenced, START + 1)];
    await acquire(START, first);

    const run = await commandsOf(() => handOver(START, first, second));

    expect(run).toEqual({ get: 1, hmget: 2, set: 1, hset: 1 });
    expect(await client.get('r')).toBe(second.ownerId);
    expect(await client.pttl('r')).toBeGreaterThan(second.ttl - 1_000);
    expect(await client.hget('redlock:fences:even', 'r')).toBe(`${START + 1}`);
  });

  it.each([
    ['nobody of a lock that it locks again', START + 1, 0],
    ['who listens of one that it does not', START, 1],
  ])('after a release that is to be told, tells %s', async (_, token, listeners) => {
    const [first, second] = [requestOf(fenced, START), requestOf(fenced, token)];
    const ear = connect();
    await ear.subscribe('redlock:wake:', 'redlock:wake:r');
    const heard: string[] = [];
    ear.on('message', (channel) => heard.push(channel));
    await acquire(START, first);
    const operations = [releaseOf(first, true), { name: 'acquire', request: second } as const];

    const reply = await runAt(START, 'batch', batchArguments(TAG, fenced, operations));
    await ear.ping();

    expect(heard).toHaveLength(listeners);
    const isAgain = listeners === 0;
    expect(reply).toEqual(isAgain ? START : [START, 1, ['stale', START]]);
    expect(await client.get('r')).toBe(isAgain ? second.ownerId : null);
  });

  it('releases, whatever becomes of the acquisition', async () => {
    const [first, second] = [requestOf(fenced, START), requestOf(fenced, START)];
    await acquire(START, first);

    const reply = await handOver(START, first, second);

    expect(reply).toEqual([START, 0, ['stale', START]]);
    expect(await client.exists('r')).toBe(0);
  });

  it.each([
    ['', fenced],
    [' without fencing', unfenced],
  ])('needs no memory%s: it takes what it frees', async (_, world) => {
    const [first, second] = [requestOf(world, START), requestOf(world, START + 1)];
    await acquire(START, first);
    await client.config('SET', 'maxmemory', '1');

    const reply = await handOver(START, first, second);

    await client.config('SET', 'maxmemory', '0');
    expect(reply).toBe(world.fencing ? START : 0);
    expect(await client.get('r')).toBe(second.ownerId);
    const record = await client.hget('redlock:fences:even', 'r');
    expect(record).toBe(world.fencing ? `${START + 1}` : null);
  });

  it('does not count on a node in quarantine', async () => {
    const world = worldOf({ quarantine: true });
    const [first, second] = [requestOf(world, START), requestOf(world, START + 1)];
    await acquire(START, first);

    const reply = await handOver(START, first, second);

    expect(reply).toEqual([START, 0, ['quarantined', world.quarantine]]);
    expect(await client.get('r')).toBe(second.ownerId);
  });

  it('is none where another has the lock', async () => {
    const [first, second] = [requestOf(fenced, START), requestOf(fenced, START + 1)];
    await client.set('r', 'somebody');

    const reply = await handOver(START, first, second);

    expect(reply).toEqual([START, 0, ['taken', -1, 0, 'somebody']]);
    expect(await client.get('r')).toBe('somebody');
  });

  it('is none where there is more in the call: each lock is its own', async () => {
    const [first, second] = [requestOf(fenced, START), requestOf(fenced, START + 1)];
    const other = requestOf(fenced, START + 2, 'other');
    await acquire(START, first);
    const operations = [
      releaseOf(first, false),
      releaseOf(second, false),
      { name: 'acquire', request: other } as const,
    ];

    await runAt(START, 'batch', batchArguments(TAG, fenced, operations));

    expect(await client.exists('r')).toBe(0);
    expect(await client.get('other')).toBe(other.ownerId);
  });

  it('is none where the lock is asked for by an extension', async () => {
    const [first, second] = [requestOf(fenced, START), requestOf(fenced, START + 1)];
    await acquire(START, first);
    const operations = [releaseOf(first, false), { name: 'extend', request: second } as const];

    const reply = await runAt(START, 'batch', batchArguments(TAG, fenced, operations));

    expect(reply).toEqual([START, 0, ['revoked', 0]]);
  });

  it('is none between two resources', async () => {
    const [first, second] = [requestOf(fenced, START), requestOf(fenced, START + 1, 'other')];
    await acquire(START, first);

    await handOver(START, first, second);

    expect(await client.exists('r')).toBe(0);
    expect(await client.get('other')).toBe(second.ownerId);
  });
});
