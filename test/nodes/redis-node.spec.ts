import { afterEach, describe, expect, it, jest } from '@jest/globals';
import type { LockNode } from '../../lib/core/lock-node.js';
import { eventually } from '../support/eventually.js';
import {
  acquire,
  release,
  requestFor,
  testNodes,
  type TestNodes,
} from '../support/node-harness.js';
import { afterTest } from '../support/after-test.js';
import { client, server } from '../support/redis-of-spec.js';
import { describeLockNode } from './lock-node.contract.js';

let nodes: TestNodes | null = null;
let others: TestNodes | null = null;

afterEach(async () => {
  await nodes?.close();
  nodes = null;
});

async function start(): Promise<TestNodes> {
  await client.flushall();
  nodes = testNodes([server.url]);
  await nodes.whenReady(5_000);
  return nodes;
}

async function startOther(): Promise<LockNode> {
  others = testNodes([server.url]);
  await others.whenReady(5_000);
  return others.node;
}

describeLockNode(
  'Redis',
  async () => ({
    node: (await start()).node,
    other: await startOther(),
    now: () => Date.now(),
    expire: async (keys) => {
      await client.del(...keys);
    },
  }),
  async () => {
    await nodes?.close();
    await others?.close();
  },
);

describe('RedisNode', () => {
  it('is named by its address, and tells once that it is up', async () => {
    const { log, node } = await start();

    expect(node.name).toBe(`${server.url}/0`);
    expect(log.events).toEqual([
      { message: 'Connected.', isTrouble: false, status: node.status() },
    ]);
  });

  it('sends and answers while a test of an application fakes timers', async () => {
    const { node } = await start();
    jest.useFakeTimers();
    afterTest(() => jest.useRealTimers());
    const request = requestFor();

    const acquired = await acquire(node, request);
    const released = await release(node, request);

    expect([acquired.vote, released.vote]).toEqual(['granted', 'done']);
  });

  it('connects anew after timers were faked, whose client never told that it had ended', async () => {
    const { log, node } = await start();
    jest.useFakeTimers();
    afterTest(() => jest.useRealTimers());
    await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');

    const lost = await acquire(node, requestFor());
    jest.useRealTimers();
    await eventually(() => node.status().state === 'up');
    const acquired = await acquire(node, requestFor());

    expect([lost.vote, acquired.vote]).toEqual(['failed', 'granted']);
    // Not when its silence was noticed.
    expect(log.events.map(({ status }) => status.state)).toEqual(['up', 'down', 'up']);
  });

  it('sends the text of a script that the server has forgotten', async () => {
    const { node } = await start();
    const request = requestFor();
    await client.script('FLUSH');

    const acquired = await acquire(node, request);
    await client.script('FLUSH');
    const released = await release(node, request);

    expect([acquired.vote, released.vote]).toEqual(['granted', 'done']);
    expect(await client.exists('r')).toBe(0);
  });

  it('does not repeat a forgotten acquisition that is released already', async () => {
    const { node } = await start();
    const request = requestFor();
    await client.script('FLUSH');

    const answers = await Promise.all([acquire(node, request), release(node, request)]);

    expect(answers).toMatchObject([
      { vote: 'failed', mayHold: false },
      { vote: 'done', listeners: 0 },
    ]);
    expect(await client.exists('r')).toBe(0);
  });

  it('leaves no connection behind when it is closed', async () => {
    const { close } = await start();
    const names = async (): Promise<string> => String(await client.client('LIST'));
    expect(await names()).toContain('name=nestjs-locked');

    await close();

    expect(await names()).not.toContain('name=nestjs-locked');
  });

  it('delivers a release that was asked for just before it is closed', async () => {
    const { close, node } = await start();
    const request = requestFor();
    await acquire(node, request);

    const answer = release(node, request);
    await close();

    expect(await answer).toEqual({ vote: 'done', listeners: 0 });
    expect(await client.exists('r')).toBe(0);
  });

  it('fails what is asked of it once it is closed, and sends nothing', async () => {
    const { close, node } = await start();
    await close();

    const answer = await acquire(node, requestFor());

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, message: 'closed' });
    expect(node.status().state).toBe('down');
  });
});
