// What the audit of a server finds, which does not keep it from locking.
import { describe, expect, it } from '@jest/globals';

import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Redis } from 'ioredis';

import { systemEnvironment, type Environment } from '../../lib/core/environment.js';
import type { RedlockOptions } from '../../lib/core/options.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { acquire, requestFor } from '../support/node-harness.js';
import {
  expectNoUnhandledRejections,
  IMPATIENT,
  startNode,
  startNodes,
  startProxy,
  startServer,
} from '../support/servers-of-test.js';

expectNoUnhandledRejections();

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
    const first = await startServer();
    let { port } = first;
    const { log, node } = await startNode(await startBalancer(() => port), IMPATIENT);
    const second = await startServer();
    // Told in whole seconds, with one allowed for: of 3, at least one is left.
    await untilUptime(second, 3);
    // The first one is seen by its answers, not only when it is connected.
    await acquire(node, requestFor());

    ({ port } = second);
    if (isSilent) first.freeze();
    else await first.client.call('CLIENT', ['KILL', 'TYPE', 'normal', 'SKIPME', 'yes']);
    void acquire(node, requestFor());
    await log.untilState('up', 1);

    expect(log.messages.slice(-1)).toEqual([
      expect.stringMatching(/^Connected. It is not the server of the last .* up at the same time/),
    ]);
  });

  it('no other server beside one that died without a word while nothing was asked', async () => {
    const server = await startServer();
    const address = await startBalancer(() => server.port, { tellsEnd: false });
    const { log, node } = await startNode(address, IMPATIENT);
    await server.restart();
    await untilUptime(server, 2);

    void acquire(node, requestFor());
    await log.untilState('down');
    await log.untilState('up', log.events.length);

    expect(log.messages.slice(-2)).toEqual([
      expect.stringMatching(/^silent for \d+ ms$/),
      'Connected.',
    ]);
  });

  it('no other server beside one that was replaced while this machine slept', async () => {
    const first = await startServer();
    let { port } = first;
    let slept = 0;
    // The monotonic clock stood still meanwhile.
    const wallClock = (): number => systemEnvironment.wallClock() + slept;
    const environment = { ...systemEnvironment, wallClock };
    const address = await startBalancer(() => port);
    const { log, node } = await startNode(address, IMPATIENT, environment);
    const second = await startServer();
    await untilUptime(second, 3);
    await acquire(node, requestFor());

    slept = 60_000;
    ({ port } = second);
    await first.client.call('CLIENT', ['KILL', 'TYPE', 'normal', 'SKIPME', 'yes']);
    await log.untilState('up', 1);

    expect(log.messages.at(-1)).toBe('Connected.');
  });

  /** Leads to any server; connects those who come later to another one when `portOf` says so. */
  async function startBalancer(portOf: () => number, { tellsEnd = true } = {}) {
    const balancer = createServer((socket) => {
      const upstream = connect(portOf(), '127.0.0.1');
      for (const end of [socket, upstream]) end.on('error', () => undefined);
      socket.pipe(upstream).pipe(socket, { end: tellsEnd });
    }).listen(0, '127.0.0.1');
    afterTest(() => balancer.close());
    await once(balancer, 'listening');
    return { host: '127.0.0.1', port: (balancer.address() as AddressInfo).port };
  }

  async function untilUptime({ client }: { client: Redis }, seconds: number): Promise<void> {
    await eventually(async () => {
      const info = await client.info('server');
      return Number(/uptime_in_seconds:(\d+)/.exec(info)?.[1]) >= seconds;
    });
  }

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
    { step: 3_000, findings: [/^Its clock and that of redis:.* differ by more than 1000 ms\. /] },
  ])('a clock that differs by $step ms, though it is read late and slowly', async (clocks) => {
    const { step, findings } = clocks;
    const [first, second] = [await startServer(), await startServer()];
    const proxy = await startProxy(second);
    await proxy.close();
    let passed = 0;
    let delay = 0;
    // The clocks by which the first was measured were wrong: to us, those of both are apart.
    const wallClock = (): number => systemEnvironment.wallClock() + delay + passed;
    // In a process that has run for a day.
    const now = (): number => systemEnvironment.now() + delay + passed + 86_400_000;
    const environment: Environment = { ...systemEnvironment, now, wallClock };
    const { log } = startNodes([first.url, proxy.url], {}, environment);
    await log.untilState('up');

    passed = step;
    await sleep(600);
    // It is told the node's time, and seems to hear it only now.
    proxy.overhear((words) => {
      const tellsTime = /:\d{16}\r\n/.test(words);
      if (tellsTime) delay = 1_200;
    });
    await proxy.open();
    const { status } = await log.until(
      ({ status: { name, state } }) => state === 'up' && name.includes(`:${proxy.port}`),
    );

    expect(delay).toBeGreaterThan(0);
    expect(status.findings).toEqual(findings.map((finding) => expect.stringMatching(finding)));
  });

  it('no other clock where that of this machine was set since the others connected', async () => {
    const [first, second] = [await startServer(), await startServer()];
    let step = 0;
    const wallClock = (): number => systemEnvironment.wallClock() + step;
    const environment = { ...systemEnvironment, wallClock };
    const { log } = startNodes([first.url, second.url], {}, environment);
    await log.untilState('up', 1);

    step = -3_600_000;
    const before = log.events.length;
    await second.client.call('CLIENT', ['KILL', 'TYPE', 'normal', 'SKIPME', 'yes']);
    await log.untilState('up', before);

    expect(log.messages.at(-1)).toBe('Connected.');
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
