// What a server's refusal of a command means for the lock, and for the node.
import { describe, expect, it } from '@jest/globals';

import { systemEnvironment } from '../../lib/core/environment.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import {
  acquire,
  extend,
  inspect,
  listen,
  release,
  requestFor,
  worldOf,
} from '../support/node-harness.js';
import {
  callsOf,
  disconnect,
  expectNoUnhandledRejections,
  startNode,
  startNodes,
  startServer,
} from '../support/servers-of-test.js';

expectNoUnhandledRejections();

describe('a server that refuses commands', () => {
  it('with OOM: no key, no misconfiguration', async () => {
    const server = await startServer();
    const { node } = await startNode(server.url);
    await server.client.config('SET', 'maxmemory', '1');

    const answer = await acquire(node, requestFor());

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: false });
    expect(answer).toMatchObject({ message: expect.stringMatching(/^OOM /) });
  });

  it('with NOREPLICAS: no key', async () => {
    const server = await startServer();
    const { node } = await startNode(server.url);
    await server.client.config('SET', 'min-replicas-to-write', '1');

    const answer = await acquire(node, requestFor());

    expect(answer).toMatchObject({ mayHold: false, isMisconfiguration: false });
    expect(answer).toMatchObject({ message: expect.stringMatching(/^NOREPLICAS /) });
    expect(await server.client.exists('r')).toBe(0);
  });

  it('with BUSY: no key', async () => {
    const server = await startServer('--busy-reply-threshold', '10');
    const { node } = await startNode(server.url);
    const busy = server.client.eval('while true do end', 0).catch(() => undefined);
    const helper = server.client.duplicate();
    afterTest(() => disconnect(helper));

    await eventually(async () => !(await helper.ping().catch(() => 'BUSY')).startsWith('P'));
    const answer = await acquire(node, requestFor());
    await helper.script('KILL');
    await busy;

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: false });
    expect(answer).toMatchObject({ message: expect.stringMatching(/^BUSY /) });
  });

  it('with LOADING at the greeting: down until it has loaded', async () => {
    const server = await startServer('--enable-debug-command', 'yes', '--rdbcompression', 'no');
    const { client } = server;
    await client.call('DEBUG', ['POPULATE', '300', 'key', '2000']);
    await client.config('SET', 'key-load-delay', '2000');
    await client.config('SET', 'loading-process-events-interval-bytes', '1024');
    const reloaded = client.call('DEBUG', ['RELOAD']);

    const { log, node } = startNodes([server.url]);
    await log.untilState('down');
    const answer = await acquire(node, requestFor());
    await reloaded;
    await log.untilState('up');

    expect(answer).toMatchObject({ mayHold: false, isMisconfiguration: false });
    expect(answer).toMatchObject({ message: expect.stringMatching(/^LOADING /) });
  });

  it.each([
    ['by itself', 1],
    ['in a batch', 2],
  ])('with WRONGTYPE of one key: the others of its owner are released, %s', async (_, count) => {
    const server = await startServer();
    const { node } = await startNode(server.url);
    const world = worldOf();
    const requests = Array.from({ length: count }, (_, index) =>
      requestFor({ world, resources: [`${index} a`, `${index} b`, `${index} c`] }),
    );
    await Promise.all(requests.map((request) => acquire(node, request)));
    // What stores its result in a key asks for no type: it takes the lock's place.
    await server.client.zadd('source', 1, 'member');
    await server.client.zunionstore('0 b', 1, 'source');
    const ear = await listen(node, world, '0 c');

    const [answer] = await Promise.all(
      requests.map((request) => release(node, { ...request, wakes: true })),
    );

    expect(answer).toMatchObject({ vote: 'failed', message: expect.stringMatching(/^WRONGTYPE/) });
    expect(await server.client.keys('? ?')).toEqual(['0 b']);
    await ear.woken;
  });

  it('with WRONGTYPE: a misconfiguration', async () => {
    const server = await startServer();
    const { node } = await startNode(server.url);
    await server.client.lpush('r', 'x');

    const answers = [
      await acquire(node, requestFor()),
      await extend(node, requestFor()),
      await release(node, requestFor()),
      await inspect(node, worldOf(), 'r'),
    ];

    for (const answer of answers) {
      expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: true });
    }
  });

  it.each([
    { denied: 'set', keys: 0 },
    { denied: 'hset', keys: 1 },
  ])(
    'as the user may not run $denied: a misconfiguration, and $keys keys until the release',
    async ({ denied, keys }) => {
      const server = await startServer();
      const rights = ['~*', '&*', '+@all', `-${denied}`];
      await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', ...rights]);
      const { node } = await startNode(`redis://u:p@127.0.0.1:${server.port}`);
      const request = requestFor();

      const answer = await acquire(node, request);
      const left = await server.client.exists('r');
      const released = await release(node, request);

      expect(answer).toMatchObject({ vote: 'failed', mayHold: true, isMisconfiguration: true });
      expect(left).toBe(keys);
      expect(released.vote).toBe('done');
      expect(await server.client.exists('r')).toBe(0);
    },
  );

  it('to the release alone: a finding, and not sent again with each lock that is granted', async () => {
    const server = await startServer();
    await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', '~*', '&*', '+@all', '-del']);
    const { log, node } = await startNode(`redis://u:p@127.0.0.1:${server.port}`);
    const request = requestFor({ ttl: 60_000 });
    await acquire(node, request);

    const released = [await release(node, request), await release(node, request)];
    const calls = await callsOf(server.client, 'evalsha');
    await acquire(node, requestFor({ resources: ['other'] }));
    await acquire(node, requestFor({ resources: ['another'] }));

    const refusal = { vote: 'failed', isMisconfiguration: true };
    expect(released).toMatchObject([refusal, refusal]);
    expect(await callsOf(server.client, 'evalsha')).toBe(calls + 2);
    expect(node.status().findings).toEqual([expect.stringMatching(/^It refuses releases: /)]);
    expect(log.events.map(({ isTrouble }) => isTrouble)).toEqual([false, true]);
  });

  it('to a release: it is sent again when the clients are cut, once it may be done', async () => {
    const server = await startServer();
    const user = ['SETUSER', 'u', 'on', '>p', '~*', '&*', '+@all'];
    await server.client.call('ACL', [...user, '-del']);
    const { node } = await startNode(`redis://u:p@127.0.0.1:${server.port}`);
    const request = requestFor({ ttl: 60_000 });
    await acquire(node, request);
    const released = await release(node, request);

    await server.client.call('ACL', user);
    await server.client.call('CLIENT', ['KILL', 'USER', 'u']);

    expect(released).toMatchObject({ vote: 'failed', isMisconfiguration: true });
    await eventually(async () => (await server.client.exists('r')) === 0);
    expect(node.status().findings).toEqual([]);
  });

  it('to releases for a while: a finding until it has done one again', async () => {
    const server = await startServer();
    const user = ['SETUSER', 'u', 'on', '>p', '~*', '&*', '+@all'];
    await server.client.call('ACL', [...user, '-del']);
    let ahead = 0;
    const environment = { ...systemEnvironment, now: () => systemEnvironment.now() + ahead };
    const url = `redis://u:p@127.0.0.1:${server.port}`;
    const { node } = await startNode(url, {}, environment);
    const [first, second] = [requestFor(), requestFor({ resources: ['other'] })];
    await acquire(node, first);

    await release(node, first);
    const { findings } = node.status();
    await server.client.call('ACL', user);
    ahead = 10_000;
    await acquire(node, second);
    await release(node, second);

    expect(findings).toEqual([expect.stringMatching(/^It refuses releases: /)]);
    expect(node.status().findings).toEqual([]);
  });

  it('to releases by themselves and in batches: one finding, told once', async () => {
    const server = await startServer();
    await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', '~*', '&*', '+@all', '-hmget']);
    const { log, node } = await startNode(`redis://u:p@127.0.0.1:${server.port}`);
    const world = worldOf();
    const requests = ['a', 'b'].map((name) => requestFor({ world, resources: [name] }));

    await release(node, requestFor());
    await Promise.all(requests.map((request) => release(node, request)));

    expect(node.status().findings).toEqual([expect.stringMatching(/^It refuses releases: /)]);
    expect(log.messages).toHaveLength(2);
  });

  it('as the user may not write one of the keys: refused before any of them is written', async () => {
    const server = await startServer();
    const rights = ['%R~*', '~r', '~redlock:node', '~redlock:rules', '+@all'];
    await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', ...rights]);
    const { node } = await startNode(`redis://u:p@127.0.0.1:${server.port}`);

    const answer = await acquire(node, requestFor());

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: true });
    expect(await server.client.exists('r')).toBe(0);
  });

  it('as it does not know EVALSHA: a misconfiguration', async () => {
    const server = await startServer('--rename-command', 'EVALSHA', '');
    const { node } = await startNode(server.url);

    const answer = await acquire(node, requestFor());

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: true });
  });
});
