import { describe, expect, it } from '@jest/globals';

import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

import type { LockNode } from '../../lib/core/lock-node.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { acquire, requestFor, worldOf } from '../support/node-harness.js';
import {
  expectNoUnhandledRejections,
  startNode,
  startNodes,
  startPretender,
  startProxy,
  startServer,
} from '../support/servers-of-test.js';
import { reset } from '../support/tcp-proxy.js';

expectNoUnhandledRejections();

describe('a server that is unfit', () => {
  it('because of a wrong password is refused, and told without the password', async () => {
    const server = await startServer('--requirepass', 'right');
    const input = `redis://:wrong-secret@127.0.0.1:${server.port}`;
    const { log, node, whenReady } = startNodes([input]);

    await expect(whenReady(60_000)).rejects.toThrow(
      /no quorum of 1 of 1 nodes: .*\(docs\/ERRORS\.md#no-quorum of nestjs-locked\).*WRONGPASS/,
    );
    const answer = await acquire(node, requestFor());

    expect(node.status()).toMatchObject({ name: `${server.url}/0`, state: 'refused' });
    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: true });
    expect(JSON.stringify([answer, log.events])).not.toContain('wrong-secret');
  });

  it('because it knows no AUTH is refused, and told without the password', async () => {
    const server = await startServer('--rename-command', 'AUTH', '');
    const { log, node } = startNodes([server.url.replace('//', '//user:secret@')]);

    const { message } = await log.untilState('refused');
    const answer = await acquire(node, requestFor());

    expect(message).toMatch(/^ERR unknown command .auth.$/i);
    expect(JSON.stringify([answer, log.events])).not.toContain('secret');
  });

  it('because of a missing password is refused, and up when that is put right', async () => {
    const server = await startServer('--requirepass', 'right');
    const { log } = startNodes([server.url]);
    const refused = await log.untilState('refused');

    await server.client.auth('right');
    await server.client.config('SET', 'requirepass', '');
    const up = await log.untilState('up');

    expect(refused.message).toMatch(/^NOAUTH /);
    expect(up.status.findings).toEqual([]);
  });

  /** It says so unasked, and to whom needs no password as to whom does. */
  async function startTurningAway(words: string, how = 'hangs up') {
    const server = createServer((socket) => {
      socket.on('error', () => undefined).write(`-${words}\r\n`);
      if (how === 'hangs up') socket.end();
      else setTimeout(() => reset(socket), 100);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    afterTest(() => server.close());
    const { port } = server.address() as AddressInfo;
    return { host: '127.0.0.1', port };
  }

  it.each([
    ['hangs up', 'ERR max number of clients reached'],
    ['hangs up', 'DENIED Redis is running in protected mode'],
    // As a system does for a server that has left the greeting unread.
    ['resets', 'ERR max number of clients reached'],
    // The greeting held a password.
    ['hangs up', 'ERR unknown command `HELLO`', ', with args beginning with: `3` `AUTH` `u` `p`'],
  ])(
    'because it turns everybody away and %s is down, and told in its own words: %s',
    async (how, words, greeting = '') => {
      const address = await startTurningAway(words + greeting, how);

      const { log } = startNodes([address]);

      expect(await log.untilState('down')).toMatchObject({ message: words });
    },
  );

  it('because it turns everybody away is told in words that no log minds, and in few', async () => {
    const address = await startTurningAway(`ERR \u001b[2J${'x'.repeat(10_000)}`);

    const { log } = startNodes([address]);

    const { message } = await log.untilState('down');
    expect(message).toMatch(/^ERR {2}\[2Jx{492}$/);
  });

  it('because scripts are denied is refused', async () => {
    const server = await startServer();
    await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', '~*', '+@all', '-eval']);

    const { log } = startNodes([`redis://u:p@127.0.0.1:${server.port}`]);

    expect((await log.untilState('refused')).message).toMatch(/^NOPERM /);
  });

  it.each([true, false])(
    'because the user has no right to its keys is refused (quarantine: %s)',
    async (quarantine) => {
      const server = await startServer();
      const rights = ['on', '>p', '~elsewhere:*', '+@all'];
      await server.client.call('ACL', ['SETUSER', 'u', ...rights]);

      const { log } = startNodes([`redis://u:p@127.0.0.1:${server.port}`], { quarantine });

      expect((await log.untilState('refused')).message).toMatch(/^NOPERM /);
    },
  );

  it('because it has no such database is refused, and does not lock in another one', async () => {
    const server = await startServer();

    const { log, node } = startNodes([`${server.url}/99`]);
    const { message } = await log.untilState('refused');
    const answer = await acquire(node, requestFor());

    expect(message).toMatch(/DB index is out of range/);
    expect(answer).toMatchObject({ vote: 'failed', mayHold: false });
  });

  it('because it answers oddly is not trusted', async () => {
    const { address } = await startPretender(() => '+OK\r\n');

    const { log, node } = startNodes([address]);
    const { message } = await log.untilState('down');
    const answer = await acquire(node, requestFor());

    expect(message).toMatch(/^redis:.* sent an unexpected reply$/);
    expect(answer).toMatchObject({ vote: 'failed', mayHold: false });
  });

  /** Its certificate is in order; what it says of itself is `info`. */
  async function startOdd(info: string) {
    const replies: Record<string, string> = { eval: '*4\r\n:1\r\n:0\r\n:1\r\n+rules\r\n', info };
    const nameOf = (words: string): string => words.split('\r\n')[2] ?? '';
    const { address } = await startPretender((words) => replies[nameOf(words)] ?? '+OK\r\n');
    const { log } = startNodes([address]);
    return log.until(({ status: { state } }) => state !== 'connecting');
  }

  it('because it cannot say now what it is, is down: it may be anything', async () => {
    const { status, message } = await startOdd('-BUSY Redis is busy running a script.\r\n');

    expect(status.state).toBe('down');
    expect(message).toMatch(/^BUSY /);
  });

  it('because it says oddly what it is, is told as one that does not say it', async () => {
    const { status } = await startOdd('*0\r\n');

    expect(status.findings).toContainEqual(expect.stringMatching(/^INFO is denied/));
  });

  it('because it is a replica is refused, and is a node again once promoted', async () => {
    const master = await startServer();
    const replica = await startServer('--replicaof', '127.0.0.1', `${master.port}`);
    const { log, node } = startNodes([replica.url], { quarantine: true });
    const { message } = await log.untilState('refused');
    const answer = await acquire(node, requestFor());

    await replica.client.replicaof('NO', 'ONE');
    await log.untilState('up');

    expect(message).toMatch(/is a slave, and a node is a master/);
    expect(answer).toMatchObject({ vote: 'failed', isMisconfiguration: true, message });
    expect(node.status().quarantineRemaining).toBeGreaterThan(0);
  });

  it('because it became a replica (READONLY) is connected anew and refused', async () => {
    const [master, other] = [await startServer(), await startServer()];
    const { log, node } = await startNode(master.url);
    await master.client.replicaof('127.0.0.1', other.port);

    const answer = await acquire(node, requestFor());

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: false });
    expect(answer).toMatchObject({ message: expect.stringMatching(/^READONLY /) });
    await log.untilState('refused');
  });

  it('because it became a replica that may be written to is connected anew and refused', async () => {
    const [master, replica] = [
      await startServer('--repl-diskless-sync-delay', '0'),
      await startServer('--replica-read-only', 'no'),
    ];
    const options = { quarantine: true, ttlMax: 100 } as const;
    const { nodes, whenReady } = startNodes([master.url, replica.url], options);
    await whenReady(60_000);
    const [first, second] = nodes as [LockNode, LockNode];
    const request = (name: string) =>
      requestFor({ world: worldOf(options), resources: [name], ttl: 100 });
    await replica.client.replicaof('127.0.0.1', master.port);
    await eventually(async () =>
      (await replica.client.info('replication')).includes('master_link_status:up'),
    );
    // Its master, whose certificate it has, counts: so would it.
    await eventually(async () => (await acquire(first, request('r'))).vote === 'granted');

    const answer = await acquire(second, request('other'));

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: false });
    expect(answer).toMatchObject({ message: 'READONLY It is a replica.' });
    await eventually(() => second.status().state === 'refused');
  });

  it('because another node is the very same server is refused', async () => {
    const server = await startServer();
    const inputs = [server.url, `redis://localhost:${server.port}/1`];
    const { log, nodes, whenReady } = startNodes(inputs);

    await expect(whenReady(60_000)).rejects.toThrow(RangeError);

    const states = nodes.map((node) => node.status().state).sort();
    expect(states).toEqual(['refused', 'up']);
    expect((await log.untilState('refused')).message).toMatch(/same server as redis:/);
  });
});

describe('two names of one server', () => {
  it('are one node, and the second is one when the first is gone', async () => {
    const server = await startServer();
    const proxies = [await startProxy(server), await startProxy(server)] as const;
    const { log, node } = startNodes(proxies.map(({ url }) => url));
    await Promise.all([log.untilState('up'), log.untilState('refused')]);
    const isFirstUp = node.status().state === 'up';
    const before = log.events.length;

    await proxies[isFirstUp ? 0 : 1].close();
    const { status } = await log.untilState('up', before);

    expect(status.name).toContain(`:${proxies[isFirstUp ? 1 : 0].port}`);
  });
});
