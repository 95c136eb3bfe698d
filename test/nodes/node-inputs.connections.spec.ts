// How a node is connected by what it is named by: user, database, address, TLS; and how long a
// start waits for that.
import { describe, expect, it, jest } from '@jest/globals';

import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, Socket, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Redis, type RedisOptions } from 'ioredis';

import { resolveOptions } from '../../lib/core/options.js';
import { MemoryNode } from '../../lib/nodes/memory-node.js';
import { createNodes } from '../../lib/nodes/node-inputs.js';
import { targetOfClient, targetOfOptions, targetOfUrl } from '../../lib/nodes/redis-target.js';
import { afterTest } from '../support/after-test.js';
import { blockFor } from '../support/block-for.js';
import { acquire, requestFor } from '../support/node-harness.js';
import { sent, startServer } from '../support/servers-of-test.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { create, idleClient } from './created-nodes.js';

describe('a connection', () => {
  async function lockOver(input: unknown): Promise<string> {
    const { nodes, whenReady } = create([input]);
    await whenReady(60_000);
    const [node] = nodes;
    return node === undefined ? 'none' : (await acquire(node, requestFor())).vote;
  }

  it.each([
    ['options', (options: RedisOptions) => options],
    ['a client', idleClient],
  ])('by %s is kept alive while idle, with the keepAlive of ioredis 5 too', async (_, wrap) => {
    const { port } = await startServer();
    const setKeepAlive = jest.spyOn(Socket.prototype, 'setKeepAlive');
    afterTest(() => setKeepAlive.mockRestore());

    const vote = await lockOver(wrap({ port, host: '127.0.0.1', keepAlive: 0 }));

    expect(vote).toBe('granted');
    expect(setKeepAlive.mock.calls).toEqual([[true, 30_000]]);
  });

  it('goes by user, password and database of a URL', async () => {
    const server = await startServer();
    const client = new Redis(server.url);
    afterTest(() => client.quit());
    await client.call('ACL', ['SETUSER', 'ann@home', 'on', '>p@ss/word', '~*', '+@all']);
    await client.config('SET', 'requirepass', 'needed');

    const vote = await lockOver(`redis://ann%40home:p%40ss%2Fword@127.0.0.1:${server.port}/5`);

    expect(vote).toBe('granted');
    await client.auth('needed');
    await client.select(5);
    expect(await client.exists('r')).toBe(1);
  });

  it('goes by the address family of a URL', async () => {
    const { port } = await startServer();

    const votes = [4, 6].map((family) => lockOver(`redis://localhost:${port}?family=${family}`));

    // The server is bound to 127.0.0.1 alone.
    expect(await Promise.all(votes)).toEqual(['granted', 'failed']);
  });

  it('goes over a Unix socket', async () => {
    const directory = temporaryDirectory();
    const path = join(directory, 'redis.sock');
    await startServer('--unixsocket', path);

    expect(await lockOver({ path })).toBe('granted');
  });

  async function startTlsServer(): Promise<{ port: number; ca: Buffer }> {
    const directory = temporaryDirectory();
    const [key, cert] = [join(directory, 'key.pem'), join(directory, 'cert.pem')];
    const request = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'];
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
    const files = ['-nodes', '-keyout', key, '-out', cert];
    execFileSync('openssl', [...request, ...subject, ...files], { stdio: 'ignore' });
    const port = 32_100 + (process.pid % 400);
    const tls = ['--tls-port', `${port}`, '--tls-cert-file', cert, '--tls-key-file', key];
    await startServer(...tls, '--tls-ca-cert-file', cert, '--tls-auth-clients', 'no');
    return { port, ca: readFileSync(cert) };
  }

  it('goes over TLS', async () => {
    const { port, ca } = await startTlsServer();
    const trusting = { host: 'localhost', port, tls: { ca } };

    expect(await lockOver(trusting)).toBe('granted');
    expect(await lockOver(`rediss://localhost:${port}`)).toBe('failed');
  });

  it('that verifies no certificate says so', async () => {
    const { port, ca } = await startTlsServer();
    const blind = { host: 'localhost', port, tls: { ca, rejectUnauthorized: false } };
    const client = new Redis({ ...blind, lazyConnect: true });
    afterTest(() => client.disconnect());
    const inputs = [{ ...blind, tls: { ca } }, blind, client];

    const findings = inputs.map(async (input) => {
      const { nodes, whenReady } = create([input]);
      await whenReady(60_000);
      return nodes[0]?.status().findings;
    });

    const finding = expect.stringMatching(/^Its certificate is not verified/);
    expect(await Promise.all(findings)).toEqual([[], [finding], [finding]]);
  });

  it('that verifies no certificate of a Sentinel is no better', () => {
    const blind = { sentinelTLS: { rejectUnauthorized: false } };
    const options = { sentinels: [{ host: 'a' }], name: 'main' };

    const areUnverified = [{}, blind].map(
      (added) => targetOfOptions({ ...options, ...added }, '', 'the node').isUnverified,
    );

    expect(areUnverified).toEqual([false, true]);
  });

  it('that verifies none as the process is told to verify none says so as well', () => {
    const given = process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    afterTest(() => {
      if (given === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
      else process.env.NODE_TLS_REJECT_UNAUTHORIZED = given;
    });
    const tls = { rejectUnauthorized: true };
    const targets = [
      targetOfUrl('rediss://a', '', 'the node'),
      targetOfOptions({ host: 'a', tls: {} }, '', 'the node'),
      targetOfClient(idleClient({ host: 'a', tls: {} }), '', 'the node'),
      targetOfOptions({ host: 'a', tls }, '', 'the node'),
      targetOfUrl('redis://a', '', 'the node'),
    ];

    const areUnverified = ['1', '0'].map((value) => {
      process.env.NODE_TLS_REJECT_UNAUTHORIZED = value;
      return targets.map(({ isUnverified }) => isUnverified);
    });

    expect(areUnverified).toEqual([
      [false, false, false, false, false],
      [true, true, true, false, false],
    ]);
  });

  function temporaryDirectory(): string {
    const directory = mkdtempSync(join(tmpdir(), 'nestjs-locked-inputs-'));
    afterTest(() => rmSync(directory, { recursive: true, force: true }));
    return directory;
  }
});

describe('the close of nodes', () => {
  it('ends when their servers have done what they were asked before', async () => {
    const server = await startServer();
    const { close, nodes, whenReady } = create([server.url], { nodeTimeout: 5_000 });
    await whenReady(60_000);
    const [node] = nodes;
    if (node === undefined) throw new Error('No node.');
    const request = requestFor();
    await acquire(node, request);
    server.freeze();
    let isClosed = false;

    node.release({ ...request, wakes: false }, () => undefined);
    const closed = close().then(() => (isClosed = true));
    await sent();
    const before = isClosed;
    server.thaw();
    await closed;

    expect(before).toBe(false);
    expect(await server.client.exists('r')).toBe(0);
  });
});

describe('the wait for nodes at the start', () => {
  async function startSilentServer(): Promise<string> {
    const sockets: Socket[] = [];
    const server = createServer((socket) => void sockets.push(socket)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    afterTest(() => {
      server.close();
      for (const socket of sockets) socket.destroy();
    });
    return `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  it('goes on after code of the application has blocked the process for longer', async () => {
    const { url } = await startServer();
    const { nodes, whenReady } = create([url]);

    const ready = whenReady(1_000);
    blockFor(1_100);
    await ready;

    expect(nodes[0]?.status().state).toBe('up');
  });

  it('ends where a server takes connections and says nothing', async () => {
    const { nodes, whenReady } = create([await startSilentServer()]);

    const startedAt = performance.now();
    await whenReady(200);
    const waited = performance.now() - startedAt;

    expect(nodes[0]?.status().state).toBe('connecting');
    expect(waited).toBeGreaterThan(190);
    expect(waited).toBeLessThan(2_000);
  });

  it('leaves no timer behind', async () => {
    const environment = new SimulatedEnvironment();
    const nodes = [new MemoryNode({ environment })];
    const { whenReady } = createNodes(nodes, resolveOptions({}, 1), { environment });

    await whenReady(2_000);

    expect(environment.pendingTimers).toBe(0);
  });
});
