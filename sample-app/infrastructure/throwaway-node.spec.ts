import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';

import { eventually } from '../../test/support/eventually.js';
import { ThrowawayNode } from './throwaway-node.js';

describe('ThrowawayNode', () => {
  let node: ThrowawayNode;
  let client: Redis;

  beforeEach(async () => {
    node = await ThrowawayNode.start();
    client = new Redis(node.url, { retryStrategy: () => 10 });
    // Connections break here on purpose.
    client.on('error', () => undefined);
    await client.set('lock', 'owner');
  });

  afterEach(async () => {
    client.disconnect();
    await node.kill();
  });

  it('answers nothing while it is frozen, and all of it when it is thawed', async () => {
    node.freeze();
    let isAnswered = false;
    const answer = client.get('lock').finally(() => (isAnswered = true));
    const other = await ThrowawayNode.start();
    await ask(other.url);
    await other.kill();

    expect({ isAnswered, state: node.state }).toEqual({ isAnswered: false, state: 'frozen' });
    node.thaw();
    expect(await answer).toBe('owner');
    expect(node.state).toBe('running');
  });

  it('is empty and at the same address after a restart, also of a frozen one', async () => {
    const { url } = node;
    node.freeze();

    await node.restart();

    expect({ url: node.url, state: node.state }).toEqual({ url, state: 'running' });
    expect(await ask(node.url)).toBeNull();
  });

  it('closes its connections when it is killed, and stays killed', async () => {
    const closed = new Promise((resolve) => client.once('close', resolve));

    await node.kill();
    node.freeze();
    node.thaw();

    await closed;
    expect(node.state).toBe('killed');
  });

  it('is killed too when somebody else ends its server, and can be restarted', async () => {
    const closed = new Promise((resolve) => client.once('close', resolve));
    const [, pid] = /process_id:(\d+)/.exec(await client.info('server')) ?? [];

    process.kill(Number(pid), 'SIGKILL');
    await closed;
    await eventually(() => node.state === 'killed');
    await node.restart();

    expect(node.state).toBe('running');
    expect(await ask(node.url)).toBeNull();
  });

  it('answers late by its delay, in order, and at once again without it', async () => {
    node.delay = 50;
    const startedAt = performance.now();

    const late = await Promise.all([client.incr('count'), client.incr('count')]);
    const duration = performance.now() - startedAt;
    const slow = client.incr('count');
    node.delay = 0;
    const quick = client.incr('count');

    expect(late).toEqual([1, 2]);
    // Node's timers may fire a millisecond early.
    expect(duration).toBeGreaterThanOrEqual(49);
    expect(await Promise.all([slow, quick])).toEqual([3, 4]);
  });
});

/** Who holds the lock, read over a connection of its own. */
async function ask(url: string): Promise<string | null> {
  const redis = new Redis(url);
  try {
    return await redis.get('lock');
  } finally {
    redis.disconnect();
  }
}
