// The operations of one tick, as one script call on a real server.
import { setTimeout as sleep } from 'node:timers/promises';

import { afterEach, describe, expect, it } from '@jest/globals';

import {
  acquire,
  extend,
  listen,
  release,
  requestFor,
  testNodes,
  worldOf,
  type TestNodes,
} from '../support/node-harness.js';
import { afterTest } from '../support/after-test.js';
import { blockFor } from '../support/block-for.js';
import { client, server } from '../support/redis-of-spec.js';
import { callsOn } from '../support/server-info.js';
import { scriptsOf } from '../../lib/nodes/redis-scripts.js';
import type { LockNode, OwnerRequest } from '../../lib/core/lock-node.js';

let nodes: TestNodes | null = null;

afterEach(async () => {
  await client.replicaof('NO', 'ONE');
  await client.config('SET', 'maxmemory', '0');
  await client.flushall();
  await nodes?.close();
  nodes = null;
});

const world = worldOf();

/** As those of one Redlock: all in one world. */
function requestIn(overrides: Partial<OwnerRequest> = {}): OwnerRequest {
  return requestFor({ world, ...overrides });
}

/** A node whose scripts are loaded, with the server's counters at zero. */
async function start(options = {}): Promise<LockNode> {
  nodes = testNodes([server.url], options);
  await nodes.whenReady(5_000);
  await client.config('RESETSTAT');
  return nodes.node;
}

async function scriptCalls(): Promise<number> {
  const { evalsha = 0, eval: byText = 0 } = await callsOn(client);
  return evalsha + byText;
}

describe('the operations of one tick', () => {
  it('travel as one call, whichever of its callbacks asks', async () => {
    const node = await start();
    const askAfter = async (timer: Promise<void>): Promise<string> => {
      await timer;
      return (await acquire(node, requestIn())).vote;
    };

    const votes = Array.from({ length: 20 }, () => askAfter(sleep(1)));
    // All timers are due now: the next tick runs them one after the other.
    blockFor(20);

    expect((await Promise.all(votes)).sort()).toEqual(['granted', ...Array(19).fill('taken')]);
    expect(await scriptCalls()).toBe(1);
  });

  it('travel as one call, and each gets its own answer', async () => {
    const node = await start();
    const mine = requestIn({ resources: ['a'] });
    const others = requestIn({ resources: ['a'] });
    const second = requestIn({ resources: ['b', 'c'] });

    const answers = await Promise.all([
      acquire(node, mine),
      acquire(node, others),
      acquire(node, second),
      extend(node, mine),
      extend(node, others),
      release(node, mine),
      acquire(node, others),
    ]);

    expect(answers.map(({ vote }) => vote)).toEqual([
      'granted',
      'taken',
      'granted',
      'granted',
      'revoked',
      'done',
      'granted',
    ]);
    expect(await scriptCalls()).toBe(1);
    expect(await client.mget('a', 'b', 'c')).toEqual([
      others.ownerId,
      second.ownerId,
      second.ownerId,
    ]);
  });

  it('tell of the node’s time with each grant, also beside one that is refused', async () => {
    const node = await start();
    const [mine, others] = [requestIn({ resources: ['a'] }), requestIn({ resources: ['a'] })];

    const answers = await Promise.all([acquire(node, mine), acquire(node, others)]);

    expect(answers.map(({ vote }) => vote)).toEqual(['granted', 'taken']);
    const nodeTime = 'nodeTime' in answers[0] ? answers[0].nodeTime : 0;
    expect(Math.abs(nodeTime / 1_000 - Date.now())).toBeLessThan(5_000);
  });

  it('go as a script of their own where there is but one', async () => {
    const node = await start();

    await client.config('SET', 'slowlog-log-slower-than', '0');

    await acquire(node, requestIn());

    const slow = (await client.slowlog('GET', 10)) as [unknown, unknown, unknown, string[]][];
    const commands = slow.map(([, , , command]) => command);
    expect(commands.find(([name]) => name === 'evalsha')?.[1]).toBe(
      scriptsOf(world, false).acquire.sha,
    );
    await client.config('SET', 'slowlog-log-slower-than', '10000');
  });

  it.each([
    { length: 256, calls: 2 },
    { length: 257, calls: 3 },
  ])('fill calls of 128 locks each: $length fill $calls', async ({ length, calls }) => {
    const node = await start();
    const requests = Array.from({ length }, (_, index) => requestIn({ resources: [`r${index}`] }));

    const answers = await Promise.all(requests.map((request) => acquire(node, request)));

    expect(new Set(answers.map(({ vote }) => vote))).toEqual(new Set(['granted']));
    expect(await scriptCalls()).toBe(calls);
  });

  it('may be one with more than 128 locks', async () => {
    const node = await start();
    const resources = Array.from({ length: 200 }, (_, index) => `r${index}`);

    const [small, large] = await Promise.all([
      acquire(node, requestIn({ resources: ['small'] })),
      acquire(node, requestIn({ resources })),
    ]);

    expect([small.vote, large.vote]).toEqual(['granted', 'granted']);
    expect(await client.exists(...resources)).toBe(200);
  });

  it('are told to those who wait, with a prefix too', async () => {
    const options = { keyPrefix: 'p:' };
    const prefixed = worldOf(options);
    const requests = ['a', 'b'].map((name) => requestIn({ world: prefixed, resources: [name] }));
    const node = await start(options);
    const others = testNodes([server.url], options);
    afterTest(() => others.close());
    // A node that is reached anew subscribes anew, and hears nothing meanwhile.
    await others.whenReady(5_000);
    const ear = await listen(others.node, prefixed, 'b');
    await Promise.all(requests.map((request) => acquire(node, request)));

    await Promise.all(requests.map((request) => release(node, { ...request, wakes: true })));

    await ear.woken;
    expect(ear.heard).toEqual([1]);
  });

  it('keep worlds apart', async () => {
    const node = await start();
    const plain = worldOf({ fencing: false, keyPrefix: 'plain:' });

    const answers = await Promise.all([
      acquire(node, requestIn({ resources: ['a'] })),
      acquire(node, requestIn({ resources: ['a'], world: plain })),
      acquire(node, requestIn({ resources: ['b'] })),
    ]);

    expect(answers.map(({ vote }) => vote)).toEqual(['granted', 'granted', 'granted']);
    expect(await client.exists('a', 'plain:a', 'b')).toBe(3);
    expect(await client.keys('*redlock:fences:*')).toEqual([
      expect.stringMatching(/^redlock:fences:(even|odd)$/),
    ]);
  });
});

describe('an operation that fails', () => {
  it('answers for itself: those beside it take effect', async () => {
    const node = await start();
    await client.lpush('list', 'not a lock');

    const [before, wrong, after] = await Promise.all([
      acquire(node, requestIn({ resources: ['a'] })),
      acquire(node, requestIn({ resources: ['list'] })),
      acquire(node, requestIn({ resources: ['b'] })),
    ]);

    expect(wrong).toMatchObject({ vote: 'failed', isMisconfiguration: true, mayHold: false });
    expect([before.vote, after.vote]).toEqual(['granted', 'granted']);
    expect(await client.exists('a', 'b')).toBe(2);
  });

  it('for want of memory leaves releases and extensions beside it alone', async () => {
    const node = await start();
    const [held, other] = [requestIn({ resources: ['a'] }), requestIn({ resources: ['b'] })];
    await Promise.all([acquire(node, held), acquire(node, other)]);
    await client.config('SET', 'maxmemory', '1');

    const [refused, alike, extended, released] = await Promise.all([
      acquire(node, requestIn({ resources: ['c'] })),
      acquire(node, requestIn({ resources: ['d'] })),
      extend(node, held),
      release(node, other),
    ]);

    const want = { vote: 'failed', mayHold: false, message: expect.stringMatching(/^OOM /) };
    expect([refused, alike]).toMatchObject([want, want]);
    expect([extended.vote, released.vote]).toEqual(['granted', 'done']);
  });

  it('because the node became a replica ends the connection for good', async () => {
    const node = await start();
    await client.replicaof('127.0.0.1', 1);

    const answers = await Promise.all([
      acquire(node, requestIn({ resources: ['a'] })),
      acquire(node, requestIn({ resources: ['b'] })),
    ]);

    expect(answers).toMatchObject([
      { vote: 'failed', mayHold: false, message: expect.stringMatching(/^READONLY/) },
      { vote: 'failed' },
    ]);
    await nodes?.log.untilState('refused');
    expect(nodes?.log.messages.join(' ')).not.toMatch(/refuses locks/);
  });
});

describe('a server that has forgotten the scripts', () => {
  it('gets the text once, and everything takes effect in order', async () => {
    const node = await start();
    const [first, second] = [requestIn({ resources: ['a'] }), requestIn({ resources: ['a'] })];
    await client.script('FLUSH');

    const answers = await Promise.all([
      acquire(node, first),
      release(node, first),
      acquire(node, second),
    ]);

    expect(answers[2].vote).toBe('granted');
    expect(await client.get('a')).toBe(second.ownerId);
  });

  it.each([
    ['beside another', ['b']],
    ['by itself', []],
  ])(
    'does not get an acquisition that was given up meanwhile, %s: it would be a ghost',
    async (_, others) => {
      const node = await start();
      const given = requestIn({ resources: ['a'] });
      const kept = others.map((name) => requestIn({ resources: [name] }));
      await client.script('FLUSH');
      const asked = Promise.all([given, ...kept].map((request) => acquire(node, request)));
      // Another tick, before the server has answered.
      await new Promise((resolve) => process.nextTick(resolve));

      const released = release(node, given);

      const [ghost, ...granted] = await asked;
      await released;
      expect(ghost).toMatchObject({ vote: 'failed', mayHold: false });
      expect(node.status().findings).toEqual([]);
      expect(granted.map(({ vote }) => vote)).toEqual(others.map(() => 'granted'));
      expect(await client.mget('a', 'b')).toEqual([null, kept[0]?.ownerId ?? null]);
    },
  );
});

describe('a node that is closed in the same tick', () => {
  it('sends what was asked for before, and nothing that comes after', async () => {
    const node = await start();

    const before = acquire(node, requestIn());
    const closing = nodes?.close();
    const after = acquire(node, requestIn());

    expect((await before).vote).toBe('granted');
    expect(await after).toMatchObject({ vote: 'failed', mayHold: false });
    await closing;
  });
});
