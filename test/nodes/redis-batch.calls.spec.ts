// When the operations of a tick are sent, and which of them together.
import { describe, expect, it } from '@jest/globals';

import { requestFor, worldOf } from '../support/node-harness.js';
import { connect } from '../support/redis-of-spec.js';
import { systemEnvironment } from '../../lib/core/environment.js';
import { RedisBatch } from '../../lib/nodes/redis-batch.js';
import { RedisConnection } from '../../lib/nodes/redis-connection.js';
import { RedisTick } from '../../lib/nodes/redis-tick.js';

const world = worldOf();

function connection(): RedisConnection {
  return new RedisConnection(connect(), systemEnvironment.now, {
    ready: () => undefined,
    ended: () => undefined,
  });
}

function add(
  batch: RedisBatch,
  to: RedisConnection,
  resources = ['r'],
  name: 'acquire' | 'extend' = 'acquire',
): void {
  const request = requestFor({ world, resources });
  batch.add(to, {
    name,
    request,
    isSettled: () => false,
    onReply: () => undefined,
  });
}

describe('operations for two connections', () => {
  it('go by a call each, in the order in which they were asked for', async () => {
    const [first, second] = [connection(), connection()];
    const sent: RedisConnection[] = [];
    const batch = new RedisBatch(new RedisTick(systemEnvironment), false, (to) => {
      sent.push(to);
    });

    for (const to of [first, first, second, first]) add(batch, to);
    await new Promise(setImmediate);

    expect(sent).toEqual([first, second, first]);
  });
});

describe('a full call', () => {
  const FULL = Array.from({ length: 128 }, (_, index) => `r${index}`);

  it('is sent to all nodes as soon as one is asked for more', async () => {
    const tick = new RedisTick(systemEnvironment);
    const sent: string[] = [];
    const [a, b] = ['a', 'b'].map((node) => new RedisBatch(tick, false, () => sent.push(node))) as [
      RedisBatch,
      RedisBatch,
    ];
    const [toA, toB] = [connection(), connection()];

    for (const name of FULL) {
      add(a, toA, [name]);
      add(b, toB, [name]);
    }
    const sentWhenFull = [...sent];
    add(a, toA);
    const sentBySurplus = [...sent];
    add(b, toB);
    await new Promise(setImmediate);

    expect(sentWhenFull).toEqual([]);
    expect(sentBySurplus).toEqual(['a', 'b']);
    expect(sent).toEqual(['a', 'b', 'a', 'b']);
  });

  it('may be a single operation for more locks, which goes by itself', async () => {
    const to = connection();
    const sent: number[] = [];
    const batch = new RedisBatch(
      new RedisTick(systemEnvironment),
      false,
      (_to, { argumentCount }) => sent.push(argumentCount),
    );

    add(batch, to);
    add(batch, to, [...FULL, 'one', 'more']);
    add(batch, to);
    await new Promise(setImmediate);

    const [small = 0, large = 0, last] = sent;
    expect(sent).toHaveLength(3);
    expect(last).toBe(small);
    expect(large - small).toBe(FULL.length + 1);
  });
});

describe('an extension', () => {
  it('goes when the callback that asks has ended, with all that was asked by then', async () => {
    const to = connection();
    const sent: string[] = [];
    const batch = new RedisBatch(new RedisTick(systemEnvironment), false, (_to, { name }) =>
      sent.push(name),
    );

    add(batch, to);
    await Promise.resolve();
    const sentBefore = [...sent];
    add(batch, to, ['held'], 'extend');
    await Promise.resolve();
    add(batch, to, ['also held'], 'extend');
    await new Promise(process.nextTick);
    const sentThen = [...sent];
    await new Promise(setImmediate);

    expect(sentBefore).toEqual([]);
    expect(sentThen).toHaveLength(1);
    expect(sent).toHaveLength(1);
  });
});
