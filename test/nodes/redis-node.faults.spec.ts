// What a Redis node does when its connection breaks, or its server refuses to serve.
import { describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { systemEnvironment } from '../../lib/core/environment.js';
import type { LockNode, ReleaseAnswer, ReleaseRequest } from '../../lib/core/lock-node.js';
import { afterTest } from '../support/after-test.js';
import { collectGarbage, untilCollected } from '../support/collect-garbage.js';
import { eventually } from '../support/eventually.js';
import { growth, LINEAR } from '../support/growth.js';
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
  IMPATIENT,
  startNode,
  startNodes,
  startProxy,
  startServer,
} from '../support/servers-of-test.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';

expectNoUnhandledRejections();

describe('a server that refuses writes for a while', () => {
  // Without fencing a server says the same each time that it grants.
  it.each([true, false])(
    'gets the release that it refused when it grants again, long before the ttl (fencing: %s)',
    async (fencing) => {
      const server = await startServer();
      const { node } = await startNode(server.url, { fencing });
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
});

describe('a server that refuses locks', () => {
  it.each([
    ['for want of memory', ['CONFIG', 'SET', 'maxmemory', '1'], /^OOM /],
    ['for want of replicas', ['CONFIG', 'SET', 'min-replicas-to-write', '1'], /^NOREPLICAS /],
    ['for want of a right', ['ACL', 'SETUSER', 'u', '-set'], /can't run|NOPERM|no permissions/i],
  ])('%s says so in a finding, by an acquisition or by a question', async (_, order, reason) => {
    const server = await startServer();
    await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', '~*', '&*', '+@all']);
    const url = `redis://u:p@127.0.0.1:${server.port}`;
    const [asked, questioned] = [await startNode(url), await startNode(url)];
    const [command = '', ...args] = order;
    await server.client.call(command, args);

    const [first, second] = [1, 2].map(() => acquire(asked.node, requestFor()));
    const found = await inspect(questioned.node, worldOf(), 'r');

    const finding = expect.stringMatching(/^It refuses locks: /);
    expect([await first, await second]).toMatchObject([{ vote: 'failed' }, { vote: 'failed' }]);
    expect(found).toMatchObject({ vote: 'found', ownerId: null });
    expect(found).toHaveProperty('refusal', expect.stringMatching(reason));
    for (const { log, node } of [asked, questioned]) {
      expect(node.status()).toMatchObject({ state: 'up', findings: [finding] });
      expect(log.messages.slice(1)).toEqual([finding]);
    }
  });

  // Without fencing a server says the same each time that it grants.
  it.each([true, false])('is believed when it grants again (fencing: %s)', async (fencing) => {
    const server = await startServer();
    let ahead = 0;
    const environment = { ...systemEnvironment, now: () => systemEnvironment.now() + ahead };
    const { log, node } = await startNode(server.url, { fencing }, environment);
    const lock = (resource: string) =>
      acquire(node, requestFor({ world: worldOf({ fencing }), resources: [resource] }));

    await lock('before');
    await server.client.config('SET', 'maxmemory', '1');
    await lock('meanwhile');
    await server.client.config('SET', 'maxmemory', '0');
    ahead = 10_000;
    await lock('after');

    expect(node.status().findings).toEqual([]);
    expect(log.messages.slice(1)).toEqual([
      expect.stringMatching(/^It refuses locks: OOM /),
      'It grants locks again.',
    ]);
  });

  it.each([
    ['locks', 'set'],
    ['locks', 'pexpire'],
    ['locks', 'hmget'],
    ['locks', 'hset'],
    ['locks', 'unlink'],
    ['locks', 'time'],
    ['releases', 'del'],
  ])(
    'is asked, and asked again, about all that it may refuse: %s for want of %s',
    async (what, right) => {
      const server = await startServer();
      const grant = (rights: string): Promise<unknown> =>
        server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', '~*', '&*', '+@all', rights]);
      await grant('+get');
      let ahead = 0;
      const environment = { ...systemEnvironment, now: () => systemEnvironment.now() + ahead };
      const url = `redis://u:p@127.0.0.1:${server.port}`;
      const { log, node } = await startNode(url, {}, environment);
      await inspect(node, worldOf(), 'r');

      await grant(`-${right}`);
      await inspect(node, worldOf(), 'r');
      ahead = 10_000;
      await inspect(node, worldOf(), 'r');
      const findings = node.status().findings;
      await grant(`+${right}`);
      ahead = 20_000;
      await inspect(node, worldOf(), 'r');

      expect(findings).toEqual([expect.stringMatching(`^It refuses ${what}: `)]);
      expect(node.status().findings).toEqual([]);
      const again = what === 'locks' ? ['It grants locks again.'] : [];
      expect(log.messages.slice(1)).toEqual([...findings, ...again]);
      expect(await server.client.exists('r')).toBe(0);
    },
  );

  it('is asked by what locks are asked by: EVAL alone is not enough', async () => {
    const server = await startServer();
    await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', '~*', '&*', '+@all', '-evalsha']);
    const { node } = await startNode(`redis://u:p@127.0.0.1:${server.port}`);

    expect(await inspect(node, worldOf(), 'r')).toMatchObject({
      vote: 'failed',
      isMisconfiguration: true,
    });
  });

  it('is asked without a write', async () => {
    const server = await startServer();
    const { node } = await startNode(server.url);
    const changes = async (): Promise<string | undefined> =>
      /rdb_changes_since_last_save:\d+/.exec(await server.client.info('persistence'))?.[0];
    const before = await changes();

    await inspect(node, worldOf(), 'r');

    expect(await changes()).toBe(before);
  });

  it('is not what a question about a key says that cannot be a lock', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url);
    await server.client.hset('r', 'a', '1');

    const found = await inspect(node, worldOf(), 'r');

    expect(found).toMatchObject({ vote: 'failed', message: expect.stringMatching(/^WRONGTYPE/) });
    expect([node.status().findings, log.messages.length]).toEqual([[], 1]);
  });

  it('is not said of one whose answer was lost, or that has become a replica', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url);
    const other = await startServer();
    await server.client.replicaof('127.0.0.1', other.port);

    const found = await inspect(node, worldOf(), 'r');
    await log.untilState('refused');

    expect(found).toMatchObject({ vote: 'failed', message: expect.stringMatching(/^READONLY/) });
    expect(log.messages.filter((message) => message.includes('refuses locks'))).toEqual([]);
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
    const { node } = await startNode(url);
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
  async function startRefused(count = 300) {
    const server = await startServer();
    const { node } = await startNode(server.url);
    const names = Array.from({ length: count }, (_, index) => `r${index}`);
    const requests = names.map((name) => requestFor({ resources: [name], ttl: 60_000 }));
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

  it('gets all of them when it does not any more, one that it cannot do among them', async () => {
    const { client, names, node } = await startRefused();
    await client.config('SET', 'min-replicas-to-write', '0');
    await client.del('r0', 'r1');
    await client.lpush('r0', 'of another type');

    const { vote } = await acquire(node, requestFor({ resources: ['other'] }));

    expect(vote).toBe('granted');
    await eventually(async () => (await client.exists(...names)) === 1);
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

describe('a server that answers what was not asked', () => {
  it('is disconnected: other answers may have gone to the wrong commands', async () => {
    const proxy = await startProxy(await startServer());
    const { log, node } = await startNode(proxy.url, IMPATIENT);

    proxy.inject('+OK\r\n');
    await log.untilState('down');
    await log.untilState('up', log.events.length);

    expect(proxy.connectionCount).toBe(2);
    expect(await acquire(node, requestFor())).toMatchObject({ vote: 'granted' });
  });

  it.each([
    ['alone', ['b']],
    ['with others', ['b', 'c']],
  ])('grants nobody a lock by what it told another, %s', async (_, resources) => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const { log, node } = await startNode(proxy.url, IMPATIENT);
    const ask = async (...resources: string[]) =>
      Promise.all(resources.map((name) => acquire(node, requestFor({ resources: [name] }))));
    const said: string[] = [];
    proxy.overhear((words) => said.push(words));
    const [first] = await ask('a');
    const granted = said.find((words) => /^:\d+\r\n$/.test(words)) ?? '';
    await Promise.all(resources.map((name) => server.client.set(name, 'somebody')));

    proxy.holdRequests();
    const answers = ask(...resources);
    await new Promise(setImmediate);
    proxy.inject(granted);

    expect(first?.vote).toBe('granted');
    expect(new Set((await answers).map(({ vote }) => vote))).toEqual(new Set(['failed']));
    await log.untilState('down');
    expect(log.messages.at(-1)).toMatch(/^A reply to another command/);
    proxy.pass();
    await log.untilState('up', log.events.length);
    expect((await ask('d'))[0]?.vote).toBe('granted');
  });
});

describe('a connection that breaks', () => {
  async function startBehindProxy() {
    const server = await startServer();
    const proxy = await startProxy(server);
    return { server, proxy, request: requestFor({ ttl: 60_000 }), ...(await startNode(proxy.url)) };
  }

  it('leaves no ghost: a command that was given up never runs later', async () => {
    const { server, proxy, request, log, node } = await startBehindProxy();
    proxy.holdRequests();
    const acquired = acquire(node, request);

    await proxy.close();
    await log.untilState('down');
    const whileClosed = await acquire(node, requestFor());
    proxy.pass();
    await proxy.open();
    await log.untilState('up', log.events.length);

    expect(await acquired).toMatchObject({ vote: 'failed', mayHold: true });
    expect(whileClosed).toMatchObject({ vote: 'failed', mayHold: false });
    const calls = await callsOf(server.client, 'evalsha');
    expect(await inspect(node, request.world, 'r')).toMatchObject({ ownerId: null });
    // The question's own.
    expect((await callsOf(server.client, 'evalsha')) - calls).toBe(1);
    expect(calls).toBe(0);
  });

  it('takes the answer with it: unknown, and released on the next one', async () => {
    const { server, proxy, request, log, node } = await startBehindProxy();
    proxy.holdReplies();
    const acquired = acquire(node, request);
    await eventually(async () => (await server.client.exists('r')) === 1);

    await proxy.close();
    await release(node, request);
    proxy.pass();
    await proxy.open();
    await log.untilState('up', log.events.length);

    expect(await acquired).toMatchObject({ vote: 'failed', mayHold: true });
    expect(await inspect(node, request.world, 'r')).toMatchObject({ ownerId: null });
  });

  it('takes a written release with it, and the next one delivers it before anything else', async () => {
    const { proxy, request, log, node } = await startBehindProxy();
    await acquire(node, request);
    proxy.holdRequests();

    const released = release(node, request);
    proxy.cut();
    proxy.pass();
    await log.untilState('up', log.events.length);
    const next = await acquire(node, requestFor());

    expect(await released).toMatchObject({ vote: 'failed', mayHold: true });
    expect(next.vote).toBe('granted');
  });

  it('takes nothing with it that was answered: no release is sent twice', async () => {
    const { server, proxy, request, log, node } = await startBehindProxy();
    await acquire(node, request);
    await release(node, request);

    proxy.cut();
    await log.untilState('down');
    await log.untilState('up', log.events.length);
    await inspect(node, request.world, 'r');

    // An acquisition, a release, and the question.
    expect(await callsOf(server.client, 'evalsha')).toBe(3);
  });

  it('is told once, however many attempts to connect fail', async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    await proxy.close();
    const { log, node } = startNodes([proxy.url]);
    await log.untilState('down');
    const { findings, state } = node.status();

    server.kill();
    await proxy.open();
    await eventually(() => proxy.connectionCount >= 3);
    await server.restart();
    await log.untilState('up');

    expect({ findings, state }).toEqual({ findings: [], state: 'down' });
    expect(log.events.map(({ status }) => status.state)).toEqual(['down', 'up']);
    expect(log.messages[0]).toMatch(/ECONNREFUSED/);
  });

  it('as soon as it is made is made less and less often', async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const environment = new SimulatedEnvironment();
    const { log } = await startNode(proxy.url, {}, environment);
    const lackOf = async (age: number): Promise<number> => {
      await environment.advance(age);
      const { connectionCount } = proxy;
      const before = log.events.length;
      proxy.cut();
      await log.untilState('down', before);
      const brokenAt = environment.now();
      await eventually(async () => {
        await environment.advance(25);
        return proxy.connectionCount > connectionCount;
      });
      await log.untilState('up', before);
      return environment.now() - brokenAt;
    };

    for (let count = 0; count < 6; count += 1) await lackOf(10);
    const lacks = [await lackOf(10), await lackOf(2_000)] as const;

    expect(lacks[0]).toBeGreaterThan(1_000);
    expect(lacks[1]).toBeLessThan(500);
  });

  it('does not keep the set from being ready when the server is down', async () => {
    const server = await startServer();
    await server.stop();
    const { node, whenReady } = startNodes([server.url]);

    await whenReady(60_000);

    expect(node.status().state).toBe('down');
  });

  it('does not keep close() waiting', async () => {
    const server = await startServer();
    const { close, node } = await startNode(server.url, IMPATIENT);
    server.freeze();
    const acquired = acquire(node, requestFor());

    await close();

    expect(await acquired).toMatchObject({ vote: 'failed', mayHold: true });
  });
});

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
    const requests = Array.from({ length: count }, (_, index) =>
      requestFor({ resources: [`${index} a`, `${index} b`, `${index} c`] }),
    );
    await Promise.all(requests.map((request) => acquire(node, request)));
    // What stores its result in a key asks for no type: it takes the lock's place.
    await server.client.zadd('source', 1, 'member');
    await server.client.zunionstore('0 b', 1, 'source');
    const ear = await listen(node, worldOf(), '0 c');

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
    const requests = ['a', 'b'].map((name) => requestFor({ resources: [name] }));

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
