import type { LookupFunction } from 'node:net';

import { describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';

import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { acquire, inspect, release, requestFor } from '../support/node-harness.js';
import {
  callsOf,
  expectNoUnhandledRejections,
  IMPATIENT,
  startNode,
  startNodes,
  startProxy,
  startServer,
} from '../support/servers-of-test.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';

expectNoUnhandledRejections();

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

  it('that no address of a host takes is told by why, which Node.js leaves to a code', async () => {
    const server = await startServer();
    await server.stop();
    const addresses = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }));
    // With ioredis 5 only one is asked for.
    const lookup: LookupFunction = (_, { all }, onFound) =>
      all === true ? onFound(null, addresses) : onFound(null, '127.0.0.1', 4);

    const { log } = startNodes([{ host: 'example.test', port: server.port, tls: { lookup } }]);

    expect((await log.untilState('down')).message).toContain('ECONNREFUSED');
  });

  it('is told by what ended it, not by a word at its greeting that did no harm', async () => {
    const server = await startServer();
    await server.client.acl('SETUSER', 'default', '-client');
    const { log } = await startNode({ port: server.port, disableClientInfo: true });
    const errors = await server.client.info('errorstats');

    server.kill();
    await log.untilState('down');

    expect(errors).toContain('errorstat_NOPERM');
    expect(log.messages.slice(0, 2)).toEqual(['Connected.', 'connection closed']);
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

describe('a connection that ends within a tick', () => {
  it('is asked nothing more in it, and a release waits for the next connection', async () => {
    const server = await startServer();
    const connect = jest.spyOn(Redis.prototype, 'connect');
    afterTest(() => connect.mockRestore());
    const { log, node } = await startNode(server.url, IMPATIENT);
    const client = connect.mock.contexts.at(-1) as Redis;
    const held = requestFor({ resources: ['held'] });
    await acquire(node, held);

    const before = acquire(node, requestFor({ resources: ['before'] }));
    client.emit('error', new Error('gone'));
    const after = acquire(node, requestFor({ resources: ['after'] }));
    const released = release(node, held);

    expect(await before).toMatchObject({ mayHold: false, message: 'connection closed' });
    expect(await after).toMatchObject({ mayHold: false, message: 'gone' });
    expect(await released).toMatchObject({ message: 'gone' });
    await log.untilState('up', log.events.length);
    await eventually(async () => (await server.client.exists('held')) === 0);
  });
});
