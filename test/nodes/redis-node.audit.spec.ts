import { describe, expect, it } from '@jest/globals';

import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';

import { systemEnvironment, type Environment } from '../../lib/core/environment.js';
import type { LockNode } from '../../lib/core/lock-node.js';
import type { RedlockOptions } from '../../lib/core/options.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { acquire, requestFor, worldOf } from '../support/node-harness.js';
import {
  expectNoUnhandledRejections,
  IMPATIENT,
  startNode,
  startNodes,
  startPretender,
  startProxy,
  startServer,
} from '../support/servers-of-test.js';

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

  it.each(['ERR max number of clients reached', 'DENIED Redis is running in protected mode'])(
    'because it turns everybody away is down, and told in its own words: %s',
    async (words) => {
      // It says so unasked, and to whom needs no password as to whom does.
      const server = createServer((socket) => {
        socket.on('error', () => undefined).end(`-${words}\r\n`);
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      afterTest(() => server.close());
      const { port } = server.address() as AddressInfo;

      const { log } = startNodes([{ host: '127.0.0.1', port }]);

      expect(await log.untilState('down')).toMatchObject({ message: words });
    },
  );

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

  it('because it cannot say now what it is, is down: it may be anything', async () => {
    const replies: Record<string, string> = {
      eval: '*4\r\n:1\r\n:0\r\n:1\r\n+rules\r\n',
      info: '-BUSY Redis is busy running a script.\r\n',
    };
    const nameOf = (words: string): string => words.split('\r\n')[2] ?? '';
    const { address } = await startPretender((words) => replies[nameOf(words)] ?? '+OK\r\n');

    const { log } = startNodes([address]);
    const { status, message } = await log.until(({ status: { state } }) => state !== 'connecting');

    expect(status.state).toBe('down');
    expect(message).toMatch(/^BUSY /);
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

describe('what an audit finds', () => {
  it('an eviction policy, connected replicas and an unfounded persistence are told once', async () => {
    const server = await startServer('--maxmemory-policy', 'allkeys-lru');
    await startServer('--replicaof', '127.0.0.1', `${server.port}`);
    await eventually(async () =>
      (await server.client.info('replication')).includes('connected_slaves:1'),
    );

    const { log } = await startNode({ url: server.url, persistent: true });
    const told = [...log.events];
    await server.stop();
    await log.untilState('down');

    const { findings } = told[0]?.status ?? {};
    expect(findings).toHaveLength(3);
    expect(findings?.join(' ')).toMatch(
      /allkeys-lru.*1 connected replica.*append-only file is off/,
    );
    const message = ['Connected.', ...(findings ?? [])].join(' ');
    expect(told).toMatchObject([{ isTrouble: true, message }]);
    // What was found stays known while it is away.
    expect(log.events[1]?.status.findings).toEqual(findings);
  });

  it.each([
    ['was disconnected', false],
    ['fell silent', true],
  ])('another server by the name of one that %s, up beside it', async (_, isSilent) => {
    const [first, second] = await Promise.all([startServer(), startServer()]);
    let { port } = first;
    const balancer = createServer((socket) => {
      const upstream = connect(port, '127.0.0.1');
      for (const end of [socket, upstream]) end.on('error', () => undefined);
      socket.pipe(upstream).pipe(socket);
    }).listen(0, '127.0.0.1');
    afterTest(() => balancer.close());
    await once(balancer, 'listening');
    const address = { host: '127.0.0.1', port: (balancer.address() as AddressInfo).port };
    const { log, node } = await startNode(address, IMPATIENT);
    const uptime = async (): Promise<number> =>
      Number(/uptime_in_seconds:(\d+)/.exec(await second.client.info('server'))?.[1]);
    await eventually(async () => (await uptime()) >= 2);

    ({ port } = second);
    if (isSilent) first.freeze();
    else await first.client.call('CLIENT', ['KILL', 'TYPE', 'normal', 'SKIPME', 'yes']);
    void acquire(node, requestFor());
    await log.untilState('up', 1);

    expect(log.messages.slice(-1)).toEqual([
      expect.stringMatching(/^Connected. It is not the server of the last .* up at the same time/),
    ]);
  });

  it('another number of nodes of the client before is told, as majorities need not meet', async () => {
    const servers = await Promise.all([startServer(), startServer(), startServer()]);
    const urls = servers.map(({ url }) => url);
    const findingsOf = async (nodes: readonly string[]): Promise<readonly string[]> => {
      const { log } = startNodes(nodes, { quarantine: true });
      const { status } = await log.until(
        ({ status: { name, state } }) => state === 'up' && name.includes(`:${servers[0].port}`),
      );
      return status.findings;
    };

    const first = await findingsOf(urls);
    const same = await findingsOf(urls);
    const fewer = await findingsOf(urls.slice(0, 1));

    expect([first, same]).toEqual([[], []]);
    expect(fewer).toEqual([expect.stringMatching(/uses another number of nodes.*Set the same/)]);
  });

  it('another ttlMax of the client before is told by each that connects, while they differ', async () => {
    const server = await startServer();
    const findingsOf = async (options: RedlockOptions): Promise<readonly string[]> => {
      const { log } = await startNode(server.url, { quarantine: true, ...options });
      return (await log.untilState('up')).status.findings;
    };

    const first = await findingsOf({ ttlMax: 30_000 });
    const other = await findingsOf({ ttlMax: 60_000 });
    const same = await findingsOf({ ttlMax: 60_000 });
    const again = await findingsOf({ ttlMax: 30_000 });
    const unfenced = await findingsOf({ ttlMax: 30_000, fencing: false });
    const alike = await findingsOf({ ttlMax: 30_000, fencing: false });
    const fenced = await findingsOf({ ttlMax: 30_000 });

    const byTtl = [expect.stringMatching(/uses another ttlMax.*Set the same/)];
    const byFencing = [expect.stringMatching(/uses another fencing/)];
    expect([first, other, same, again]).toEqual([[], byTtl, [], byTtl]);
    expect([unfenced, alike, fenced]).toEqual([byFencing, [], byFencing]);
  });

  it('other rules of the client before are told without quarantine too', async () => {
    const server = await startServer();
    const findingsOf = async (options: RedlockOptions): Promise<readonly string[]> => {
      const { log } = await startNode(server.url, options);
      return (await log.untilState('up')).status.findings;
    };

    const first = await findingsOf({ ttlMax: 30_000 });
    // Without quarantine nothing depends on it.
    const longer = await findingsOf({ ttlMax: 60_000 });
    const shorter = await findingsOf({ ttlMax: 3_000 });
    const unfenced = await findingsOf({ ttlMax: 3_000, fencing: false });
    const quarantined = await findingsOf({ ttlMax: 3_000, fencing: false, quarantine: true });

    const by = (setting: string): unknown[] => [
      expect.stringMatching(`uses another ${setting}.*Set the same`),
    ];
    expect([first, longer]).toEqual([[], []]);
    expect([shorter, unfenced, quarantined]).toEqual([
      by('ttlMax'),
      by('fencing'),
      by('ttlMax, driftFactor or quarantine'),
    ]);
  });

  it.each([
    { step: 0, findings: [] },
    { step: 60_000, findings: [/^Its clock and that of redis:.* differ by more than 1000 ms\. /] },
  ])('a clock that differs from that of another server by $step ms', async ({ step, findings }) => {
    const [first, second] = [await startServer(), await startServer()];
    const proxy = await startProxy(second);
    await proxy.close();
    let passed = 0;
    // The clock by which the first was measured was wrong: to us, those of both are apart.
    const wallClock = (): number => systemEnvironment.wallClock() + passed;
    // In a process that has run for a day.
    const now = (): number => systemEnvironment.now() + 86_400_000;
    const environment: Environment = { ...systemEnvironment, now, wallClock };
    const { log } = startNodes([first.url, proxy.url], {}, environment);
    await log.untilState('up');

    passed = step;
    await proxy.open();
    const { status } = await log.until(
      ({ status: { name, state } }) => state === 'up' && name.includes(`:${proxy.port}`),
    );

    expect(status.findings).toEqual(findings.map((finding) => expect.stringMatching(finding)));
  });

  it('INFO is denied, inside scripts too', async () => {
    const server = await startServer();
    await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', '~*', '+@all', '-info']);

    const { log } = await startNode(`redis://u:p@127.0.0.1:${server.port}`, { quarantine: true });

    const { findings } = log.events[0]?.status ?? {};
    expect(findings).toEqual([
      expect.stringMatching(/INFO is denied: /),
      expect.stringMatching(/INFO is denied inside scripts/),
    ]);
  });
});
