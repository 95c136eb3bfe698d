import { describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';

import { systemEnvironment, type Environment } from '../../lib/core/environment.js';
import type { LockNode, ReleaseAnswer, ReleaseRequest } from '../../lib/core/lock-node.js';
import { collectGarbage, untilCollected } from '../support/collect-garbage.js';
import { eventually } from '../support/eventually.js';
import { growth, LINEAR } from '../support/growth.js';
import { acquire, release, requestFor, worldOf } from '../support/node-harness.js';
import {
  callsOf,
  expectNoUnhandledRejections,
  startNode,
  startServer,
} from '../support/servers-of-test.js';

expectNoUnhandledRejections();

/** No timer tells a node to try again: it is the votes alone. */
const WITHOUT_TIMERS: Environment = { ...systemEnvironment, startTimer: () => null };

describe('a server that refuses writes for a while', () => {
  // Without fencing a server says the same each time that it grants.
  it.each([true, false])(
    'gets the release that it refused as soon as it grants again (fencing: %s)',
    async (fencing) => {
      const server = await startServer();
      const { node } = await startNode(server.url, { fencing }, WITHOUT_TIMERS);
      const world = worldOf({ fencing });
      const request = requestFor({ world, ttl: 60_000 });
      await acquire(node, request);
      await server.client.config('SET', 'min-replicas-to-write', '1');
      const refused = await release(node, request);
      await server.client.config('SET', 'min-replicas-to-write', '0');

      const granted = await acquire(node, requestFor({ world, resources: ['other'] }));

      expect(refused).toMatchObject({
        vote: 'failed',
        message: expect.stringMatching(/NOREPLICAS/),
      });
      expect(granted.vote).toBe('granted');
      await eventually(async () => (await server.client.exists('r')) === 0);
    },
  );

  it('gets the release that it refused soon, though nothing else is asked of it', async () => {
    const { client, url } = await startServer();
    const { node } = await startNode(url);
    const request = requestFor({ ttl: 60_000 });
    await acquire(node, request);
    await client.config('SET', 'min-replicas-to-write', '1');

    const refused = await release(node, request);
    await eventually(async () => (await callsOf(client, 'evalsha')) > 2);
    await client.config('SET', 'min-replicas-to-write', '0');

    expect(refused).toMatchObject({ vote: 'failed', isMisconfiguration: false });
    await eventually(async () => (await client.exists('r')) === 0);
  });

  async function startRefused(environment: Environment) {
    const { client, url } = await startServer();
    const { node } = await startNode(url, {}, environment);
    const request = requestFor({ ttl: 60_000 });
    await acquire(node, request);
    await client.config('SET', 'min-replicas-to-write', '1');
    await release(node, request);
    return { client, node, request };
  }

  /** How often the scripts are called for three locks, with what is sent because of these. */
  async function callsForThree(node: LockNode, client: Redis): Promise<number> {
    await client.config('SET', 'min-replicas-to-write', '0');
    const before = await callsOf(client, 'evalsha');
    for (const name of ['a', 'b', 'c']) await acquire(node, requestFor({ resources: [name] }));
    return (await callsOf(client, 'evalsha')) - before;
  }

  it('gets it once, however often it was asked for', async () => {
    const { client, node, request } = await startRefused(WITHOUT_TIMERS);
    await release(node, request);

    expect(await callsForThree(node, client)).toBe(4);
    expect(await client.exists('r')).toBe(0);
  });

  it('does not get it when its keys have expired by themselves', async () => {
    let ahead = 0;
    const now = (): number => systemEnvironment.now() + ahead;
    const { client, node } = await startRefused({ ...WITHOUT_TIMERS, now });

    ahead = 70_000;

    expect(await callsForThree(node, client)).toBe(3);
  });
});

describe('a server that has done a release', () => {
  it('is not sent it again on the next connection', async () => {
    const { client, url } = await startServer();
    const { log, node } = await startNode(url);
    const request = requestFor({ ttl: 60_000 });
    await acquire(node, request);
    await release(node, request);
    const before = await callsOf(client, 'evalsha');

    const upBefore = log.events.length;
    await client.call('CLIENT', 'KILL', 'TYPE', 'normal');
    await log.untilState('up', upBefore);
    await acquire(node, requestFor({ resources: ['other'] }));

    expect((await callsOf(client, 'evalsha')) - before).toBe(1);
  });
});

describe('a server that refused a release', () => {
  /** Asks for the answer; gives it, and who asked. */
  function ask(node: LockNode, request: ReleaseRequest): [Promise<string>, WeakRef<object>] {
    let onAnswer: (answer: ReleaseAnswer) => void = () => undefined;
    const vote = new Promise<string>((resolve) => {
      onAnswer = (answer) => resolve(answer.vote);
    });
    node.release(request, onAnswer);
    return [vote, new WeakRef(onAnswer)];
  }

  it('does not have the node keep who was answered, only what is to be sent again', async () => {
    const { client, url } = await startServer();
    const { node } = await startNode(url, {}, WITHOUT_TIMERS);
    const request = { ...requestFor({ ttl: 60_000 }), wakes: false };
    await acquire(node, request);
    await client.config('SET', 'min-replicas-to-write', '1');

    const [vote, asker] = ask(node, request);

    expect(await vote).toBe('failed');
    await untilCollected(asker);
    await client.config('SET', 'min-replicas-to-write', '0');
    await acquire(node, requestFor({ resources: ['other'] }));
    await eventually(async () => (await client.exists('r')) === 0);
  });
});

describe('a server that refused many releases', () => {
  async function startRefused(count = 300, environment = WITHOUT_TIMERS) {
    const server = await startServer();
    const { node } = await startNode(server.url, {}, environment);
    const world = worldOf();
    const names = Array.from({ length: count }, (_, index) => `r${index}`);
    const requests = names.map((name) => requestFor({ world, resources: [name], ttl: 60_000 }));
    await Promise.all(requests.map((request) => acquire(node, request)));
    await server.client.config('SET', 'min-replicas-to-write', '1');
    await Promise.all(requests.map((request) => release(node, request)));
    return { ...server, names, node };
  }

  async function bytesSentTo(client: Redis): Promise<number> {
    return Number(/total_net_input_bytes:(\d+)/.exec(await client.info('stats'))?.[1]);
  }

  it('is not sent all of them with each vote, while it refuses them', async () => {
    const { client, node } = await startRefused();
    const before = await bytesSentTo(client);

    for (let attempt = 0; attempt < 50; attempt += 1) {
      const { vote } = await acquire(node, requestFor({ resources: ['r0'] }));
      expect(vote).toBe('taken');
    }

    // Each time some 200 for an acquisition, and as many for a release.
    expect((await bytesSentTo(client)) - before).toBeLessThan(50 * 1_000);
  });

  it('costs no timer for each of them, and none that keeps the process from its end', async () => {
    const holding: boolean[] = [];
    const startTimer: Environment['startTimer'] = (_delay, _callback, holdsProcess) =>
      holding.push(holdsProcess);

    await startRefused(300, { ...systemEnvironment, startTimer });

    expect(holding.length).toBeLessThan(10);
    expect(holding).not.toContain(true);
  });

  it('gets all of them when it does not any more, one that it cannot do among them', async () => {
    const { client, names, node } = await startRefused();
    await client.config('SET', 'min-replicas-to-write', '0');
    await client.del('r0', 'r1');
    await client.lpush('r0', 'of another type');
    const before = await callsOf(client, 'evalsha');

    const { vote } = await acquire(node, requestFor({ resources: ['other'] }));

    expect(vote).toBe('granted');
    await eventually(async () => (await client.exists(...names)) === 1);
    // Twice as many with each call.
    expect((await callsOf(client, 'evalsha')) - before).toBeLessThan(30);
    expect(node.status().findings).toEqual([expect.stringMatching(/refuses releases: WRONGTYPE/)]);
  });

  it('gets thousands without the process looking at all of them for each', async () => {
    const prepare = async (count: number) => {
      const { client, node } = await startRefused(count);
      await client.config('SET', 'min-replicas-to-write', '0');
      return async () => {
        await acquire(node, requestFor({ resources: ['other'] }));
        await eventually(async () => (await client.dbsize()) < count / 100);
      };
    };

    expect(await growth(prepare, 3_000)).toBeLessThan(LINEAR);
  });
});

describe('a server that refuses releases without end', () => {
  it('costs memory for so many of them, and no more', async () => {
    const { client, url } = await startServer();
    const { node } = await startNode(url);
    await client.call('ACL', ['SETUSER', 'default', '-evalsha']);
    const world = worldOf();
    const heapAfter = async (count: number): Promise<number> => {
      for (let done = 0; done < count; done += 4_000) {
        const requests = Array.from({ length: 4_000 }, () =>
          requestFor({ world, ttl: 600_000, token: 1 }),
        );
        const votes = await Promise.all(requests.map((request) => release(node, request)));
        expect(votes.map(({ vote }) => vote)).not.toContain('done');
      }
      collectGarbage();
      return process.memoryUsage().heapUsed;
    };

    const first = await heapAfter(40_000);
    const second = await heapAfter(60_000);

    expect(second - first).toBeLessThan(8_000_000);
  });
});
