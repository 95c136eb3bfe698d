import { afterEach, describe, expect, it, jest } from '@jest/globals';

import { systemEnvironment } from '../../lib/core/environment.js';
import type { LockNode } from '../../lib/core/lock-node.js';
import { eventually } from '../support/eventually.js';
import {
  acquire,
  extend,
  inspect,
  listen,
  release,
  requestFor,
  testNodes,
  worldOf,
  type TestNodes,
} from '../support/node-harness.js';
import { afterTest } from '../support/after-test.js';
import { client, connect, server } from '../support/redis-of-spec.js';
import { callsOn } from '../support/server-info.js';
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

  it('is connecting at first, and fails what is asked of it by then', async () => {
    nodes = testNodes([server.url]);
    const { node } = nodes;
    const { clockOffset, state } = node.status();

    const answer = await acquire(node, requestFor());

    expect({ clockOffset, state }).toEqual({ clockOffset: null, state: 'connecting' });
    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: false });
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

  it('subscribes anew when its server is reached anew: the other connection may be dead', async () => {
    const { node } = await start();
    const live: boolean[] = [];
    const onLive = (isLive: boolean): void => void live.push(isLive);
    const stop = node.listen(worldOf(), 'r', { onLive, onWake: () => undefined });
    await eventually(() => live.length === 1);

    await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually(() => live.length === 3);

    expect(live).toEqual([true, false, true]);
    stop();
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

  it('drops a forgotten acquisition that is released already, without a finding', async () => {
    const { node } = await start();
    const request = requestFor();
    await client.script('FLUSH');

    const answers = await Promise.all([acquire(node, request), release(node, request)]);

    expect(answers).toMatchObject([
      { vote: 'failed', mayHold: false },
      { vote: 'done', listeners: 0, overdue: 0 },
    ]);
    expect(await client.exists('r')).toBe(0);
    expect(node.status().findings).toEqual([]);
  });

  it('leaves no connection behind when it is closed', async () => {
    const { close, node } = await start();
    const ear = await listen(node, worldOf(), 'r');
    const names = async (): Promise<string> => String(await client.client('LIST'));
    expect((await names()).match(/name=nestjs-locked/g)).toHaveLength(2);

    await close();

    await eventually(async () => !(await names()).includes('name=nestjs-locked'));
    ear.stop();
  });

  it('leaves no connection behind, either, when it is closed as soon as it was made', async () => {
    await testNodes([server.url]).close();

    // Of one that is made later: that of the node would be there by now.
    const names = String(await connect().client('LIST'));
    expect(names).not.toContain('name=nestjs-locked');
  });

  it('goes by the clock of the latest grant or inspection, unless that tells no time', async () => {
    let behind = 0;
    const wallClock = (): number => systemEnvironment.wallClock() - behind;
    nodes = testNodes([server.url], {}, { ...systemEnvironment, wallClock });
    await nodes.whenReady(5_000);
    const { node } = nodes;
    const offset = async (answer: Promise<{ readonly vote: string }>): Promise<number> => {
      expect((await answer).vote).toMatch(/granted|found/);
      return Math.round((node.status().clockOffset ?? Infinity) / 60_000);
    };

    behind = 3_600_000;
    const told = await offset(acquire(node, requestFor()));
    behind = 7_200_000;
    const world = worldOf({ fencing: false });
    const untold = await offset(acquire(node, requestFor({ world, resources: ['b'], token: 0 })));
    const inspected = await offset(inspect(node, world, 'r'));

    // In minutes.
    expect([told, untold, inspected]).toEqual([60, 60, 120]);
  });

  it('delivers a release that was asked for just before it is closed', async () => {
    const { close, node } = await start();
    const request = requestFor();
    await acquire(node, request);

    const answer = release(node, request);
    await close();

    expect(await answer).toEqual({ vote: 'done', listeners: 0, overdue: 0 });
    expect(await client.exists('r')).toBe(0);
  });

  it('is closed as soon as the server has answered, long before its nodeTimeout', async () => {
    nodes = testNodes([server.url], { ttl: 30_000, nodeTimeout: 7_500 });
    await nodes.whenReady(5_000);
    const startedAt = performance.now();

    await nodes.close();

    expect(performance.now() - startedAt).toBeLessThan(3_000);
  });

  it('sends no release that is on its way already, and answers all who ask alike', async () => {
    const { node } = await start();
    const request = requestFor();
    const ear = await listen(await startOther(), worldOf(), 'r');
    afterTest(() => others?.close());
    await acquire(node, request);
    const wakes = { ...request, wakes: true };
    await client.config('RESETSTAT');

    const first = release(node, wakes);
    // Another tick, before the server has answered.
    await new Promise((resolve) => process.nextTick(resolve));
    const answers = await Promise.all([first, release(node, wakes)]);

    const told = { vote: 'done', listeners: 1, overdue: 0 };
    expect(answers).toEqual([told, told]);
    expect(await callsOn(client)).toMatchObject({ evalsha: 1 });
    ear.stop();
  });

  it('fails what is asked of it once it is closed, and sends nothing', async () => {
    const { close, node } = await start();
    await close();
    const request = requestFor();

    const answers = await Promise.all([
      acquire(node, request),
      extend(node, request),
      release(node, request),
      inspect(node, request.world, 'r'),
    ]);

    const failure = { vote: 'failed', mayHold: false, message: 'closed' };
    expect(answers).toMatchObject([failure, failure, failure, failure]);
    expect(node.status().state).toBe('down');
  });
});
