import { describe, expect, it, jest } from '@jest/globals';

import { execFileSync } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Cluster, Redis, type RedisOptions } from 'ioredis';

import { resolveOptions, type RedlockOptions } from '../../lib/core/options.js';
import { MemoryNode } from '../../lib/nodes/memory-node.js';
import { createNodes, type NodeInput, type NodeSet } from '../../lib/nodes/node-inputs.js';
import { targetOfOptions, targetOfUrl } from '../../lib/nodes/redis-target.js';
import { afterTest } from '../support/after-test.js';
import { acquire, release, requestFor, worldOf } from '../support/node-harness.js';
import { startServer } from '../support/servers-of-test.js';

function create(inputs: unknown[] | undefined, options: RedlockOptions = {}): NodeSet {
  const resolved = resolveOptions(options, 1);
  // Users of plain JavaScript pass anything.
  const nodes = createNodes(inputs as NodeInput[], resolved);
  afterTest(() => nodes.close());
  return nodes;
}

function nameOf(input: unknown): string | undefined {
  return create([input]).nodes[0]?.name;
}

const answer = (): void => {};

/** A client that never connects. */
function idleClient(options: RedisOptions): Redis {
  return new Redis({ ...options, lazyConnect: true, replyMapping: 'legacy' });
}

/** What a client of node-redis has in common with one of ioredis. */
const nodeRedisClient = {
  options: { password: 'secret', socket: { host: 'example.test' } },
  duplicate: () => new EventEmitter(),
  disconnect: answer,
};

const nodeWithoutListen = {
  ...{ name: 'a', acquire: answer, extend: answer, release: answer },
  ...{ inspect: answer, status: answer },
};

const addressesWithPassword = [
  { host: 'redis://u:secret@example.test:6379' },
  { host: 'u:secret@example.test', port: 6379 },
  { path: 'redis://u:secret@example.test' },
  { sentinels: [{ host: 'a' }, { host: 'rediss://:secret@example.test' }], name: 'main' },
  { sentinels: [{ host: ':secret@example.test' }], name: 'main' },
];

describe('what a node may be named by', () => {
  it.each([
    ['redis://localhost', 'redis://localhost:6379/0'],
    ['redis://Example.test:7000/3', 'redis://example.test:7000/3'],
    ['rediss://user:secret@example.test', 'rediss://example.test:6379/0'],
    ['redis://:p%40ss@[::1]:7000?family=6', 'redis://[::1]:7000/0'],
    [{ host: 'example.test', port: 7000, db: 2 }, 'redis://example.test:7000/2'],
    [{ host: 'example.test', db: '2' }, 'redis://example.test:6379/2'],
    [{ host: 'example.test', db: null }, 'redis://example.test:6379/0'],
    [{ port: 7000, password: 'secret', persistent: true }, 'redis://localhost:7000/0'],
    [{ host: 'example.test', tls: {} }, 'rediss://example.test:6379/0'],
    // ioredis takes all of these for no TLS.
    [{ host: 'example.test', tls: null }, 'redis://example.test:6379/0'],
    [{ host: 'example.test', tls: false }, 'redis://example.test:6379/0'],
    [{ host: 'example.test', tls: '' }, 'redis://example.test:6379/0'],
    [{ url: 'redis://u:secret@example.test', persistent: true }, 'redis://example.test:6379/0'],
    [{ path: '/tmp/none.sock' }, 'redis+unix:///tmp/none.sock/0'],
    [{ path: '/run/redis@main.sock' }, 'redis+unix:///run/redis@main.sock/0'],
    [
      { sentinels: [{ host: 'b', port: 1 }, { host: 'a' }], name: 'main' },
      'redis+sentinel://a:26379,b:1/main/0',
    ],
    [{ sentinels: [{ port: 1 }], name: 'main' }, 'redis+sentinel://localhost:1/main/0'],
    [
      { sentinels: [{ host: 'a' }], name: 'main', tls: {}, enableTLSForSentinelMode: true },
      'rediss+sentinel://a:26379/main/0',
    ],
  ])('%j is shown as %s', (input, name) => {
    expect(nameOf(input)).toBe(name);
  });

  it.each([
    'http://u:secret@example.test',
    'redis-sentinel://:secret@example.test',
    ':secret@example.test:6379',
    'redis://u:secret@example.test/main',
    'redis://u:secret@example.test?enableOfflineQueue=true',
    'redis://u:secret@exa mple.test',
    'redis://u:secret%@example.test',
    'redis://u:7#secret@example.test',
    'redis://secret:7#@example.test',
    '',
    null,
    7,
    {},
    { hots: 'example.test', password: 'secret' },
    { host: undefined, password: 'secret' },
    { sentinels: [], name: 'main', sentinelPassword: 'secret' },
    { url: 7 },
    { client: 'nothing', host: 'example.test' },
    { url: 'redis://example.test', tls: {}, password: 'secret' },
    { host: 'example.test', persistent: 1 },
    ...addressesWithPassword,
    { host: 'example.test', keyPrefix: 'own:', password: 'secret' },
    // ioredis would lock in database 0, and end the process by a rejection that nobody handles.
    { host: 'example.test', db: NaN, password: 'secret' },
    { host: 'example.test', db: '', password: 'secret' },
    { host: 'example.test', db: 'main', password: 'secret' },
    { host: 'example.test', db: -1, password: 'secret' },
    { host: 'example.test', port: NaN, password: 'secret' },
    { host: 'example.test', port: 'main', password: 'secret' },
    { host: 127, password: 'secret' },
    { path: 7, password: 'secret' },
    { sentinels: [{ host: 127 }], name: 'main', password: 'secret' },
    // ioredis would throw when it connects, in a callback of its own.
    { host: 'example.test', connectTimeout: '1s', password: 'secret' },
    [],
    nodeRedisClient,
    { client: nodeRedisClient },
    nodeWithoutListen,
  ])('%j is refused by its place, without its password', (input) => {
    expect.assertions(2);
    try {
      create([input]);
    } catch (error) {
      expect(String(error)).toMatch(/^TypeError: Expected .*nodes\[0\]/);
      expect(String(error)).not.toContain('secret');
    }
  });

  it.each([
    ['options', (options: RedisOptions) => options],
    ['a client', idleClient],
  ])('is not %s for TLS behind Sentinel, where ioredis would speak none', (_, wrap) => {
    const options = { sentinels: [{ host: 'a' }], name: 'main', password: 'secret', tls: {} };

    const refused = (): unknown => create([wrap(options)]);

    expect(refused).toThrow(TypeError);
    expect(refused).toThrow(/nodes\[0\].*enableTLSForSentinelMode: true/);
  });

  it.each(addressesWithPassword)('is no client with %j, which is not repeated', (options) => {
    const refused = (): unknown => create([{ client: idleClient(options) }]);

    expect(refused).toThrow(TypeError);
    expect(refused).toThrow(/nodes\[0\].*give a URL as a string or as \{ url \}/);
    expect(refused).not.toThrow(/secret/);
  });

  it.each([-1, NaN, Infinity])('takes no connectTimeout of %d', (connectTimeout) => {
    const refused = (): unknown => create([{ host: 'example.test', connectTimeout }]);

    expect(refused).toThrow(RangeError);
    expect(refused).toThrow(/nodes\[0\]\.connectTimeout .* got/);
  });

  it('names the scheme that it does not know', () => {
    expect(() => create(['http://example.test'])).toThrow(/nodes\[0\].*"http:\/\/"/);
  });

  it('is one node in memory when nothing is named', () => {
    const { nodes } = create(undefined);

    expect(nodes).toEqual([expect.any(MemoryNode)]);
  });

  it('is any LockNode, which is used as it is', async () => {
    const node = new MemoryNode();

    const { nodes, whenReady } = create([node]);
    await whenReady(60_000);

    expect(nodes[0]).toBe(node);
  });

  it.each([
    [['redis://example.test', 'redis://EXAMPLE.test:6379']],
    [['redis://example.test/0', { host: 'example.test', db: 1 }]],
    [['redis://u:secret@example.test', 'rediss://example.test']],
    [[{ path: '/tmp/a.sock' }, { path: '/tmp/a.sock', db: 1 }]],
  ])('is not the same server twice: %j', (inputs) => {
    expect(() => create(inputs)).toThrow(RangeError);
    expect(() => create(inputs)).toThrow(/nodes\[0\].*nodes\[1\].*database/);
    expect(() => create(inputs)).not.toThrow(/secret/);
  });

  it('is not the same LockNode twice', () => {
    const node = new MemoryNode();

    expect(() => create([node, node])).toThrow(RangeError);
  });

  it('is not a Redis Cluster client', () => {
    const cluster = new Cluster([{ host: '127.0.0.1', port: 1 }], { lazyConnect: true });

    expect(() => create([cluster])).toThrow(/Redis Cluster/);
    expect(() => create([{ client: cluster, persistent: true }])).toThrow(/Redis Cluster/);
  });
});

describe("an application's ioredis client", () => {
  async function startClient(keyPrefix = ''): Promise<Redis> {
    const server = await startServer();
    const client = new Redis(server.url, { keyPrefix });
    afterTest(() => client.quit());
    return client;
  }

  it.each([(client: Redis) => client, (client: Redis) => ({ client, persistent: true })])(
    'lends its address, not its connection, and stays open',
    async (wrap) => {
      const client = await startClient();
      const { close, nodes, whenReady } = create([wrap(client)]);
      await whenReady(60_000);
      const [node] = nodes;
      if (node === undefined) throw new Error('No node.');

      const answer = await acquire(node, requestFor());
      const connections = String(await client.client('LIST'))
        .trim()
        .split('\n').length;
      await close();

      expect(answer.vote).toBe('granted');
      expect(node.name).toBe(`redis://127.0.0.1:${client.options.port}/0`);
      expect(connections).toBe(2);
      expect(client.status).toBe('ready');
      expect(await client.ping()).toBe('PONG');
    },
  );

  it('with a prefix of its own is refused, as the locks would be elsewhere', async () => {
    const client = await startClient('own:');

    expect(() => create([client])).toThrow(TypeError);
    expect(() => create([client])).toThrow(/name the prefix of the locks in the option keyPrefix/);
  });

  it('with the same prefix as the locks puts it before the keys once', async () => {
    const client = await startClient('app:');
    const { nodes, whenReady } = create([client], { keyPrefix: 'app:' });
    await whenReady(60_000);
    const [node] = nodes;
    if (node === undefined) throw new Error('No node.');

    await acquire(node, requestFor({ world: worldOf({ keyPrefix: 'app:', fencing: false }) }));

    expect((await client.keys('*')).sort()).toEqual(['app:r', 'app:redlock:rules']);
  });

  it('whose database is no number is refused', () => {
    const refused = (): unknown => create([idleClient({ host: 'example.test', db: NaN })]);

    expect(refused).toThrow(new TypeError('Expected nodes[0].db to be a whole number, got NaN'));
  });

  it('may queue and repeat commands: the connection of the locks does neither', async () => {
    const server = await startServer();
    const client = new Redis(server.url, {
      enableOfflineQueue: true,
      autoResendUnfulfilledCommands: true,
      commandTimeout: 1,
      enableAutoPipelining: true,
      stringNumbers: true,
      readOnly: true,
      lazyConnect: true,
    });
    afterTest(() => client.disconnect());
    const { nodes, whenReady } = create([client]);
    await whenReady(60_000);
    const [node] = nodes;
    if (node === undefined) throw new Error('No node.');
    const request = requestFor();

    const answers = [await acquire(node, request), await release(node, request)];

    expect(answers).toEqual([
      { vote: 'granted', nodeTime: expect.any(Number) },
      { vote: 'done', listeners: 0 },
    ]);
    expect(client.status).toBe('wait');
  });

  it('may prepare imports of hashes that its server does not know: the locks need none', async () => {
    const { port } = await startServer();
    const himportFieldsets = [{ name: 'person', fields: ['name', 'age'] }];
    const client = new Redis({ port, lazyConnect: true, himportFieldsets });
    afterTest(() => client.disconnect());
    const { nodes, whenReady } = create([client]);

    await whenReady(60_000);

    expect(nodes.map((node) => node.status().state)).toEqual(['up']);
  });

  it('may connect anew on errors: the connection of the locks tells of them, and stays', async () => {
    const server = await startServer();
    const client = new Redis(server.url, { reconnectOnError: () => 2 });
    afterTest(() => client.disconnect());
    const { nodes, whenReady } = create([client]);
    await whenReady(60_000);
    const [node] = nodes;
    if (node === undefined) throw new Error('No node.');
    await client.lpush('list', 'not a lock');

    const answers = [
      await acquire(node, requestFor({ resources: ['list'] })),
      await acquire(node, requestFor({ resources: ['r'] })),
    ];

    expect(answers).toMatchObject([
      { vote: 'failed', message: expect.stringContaining('WRONGTYPE') },
      { vote: 'granted' },
    ]);
  });
});

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
    await client.call('ACL', ['SETUSER', 'ann', 'on', '>p@ss/word', '~*', '+@all']);
    await client.config('SET', 'requirepass', 'needed');

    const vote = await lockOver(`redis://ann:p%40ss%2Fword@127.0.0.1:${server.port}/5`);

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
      targetOfOptions({ host: 'a', tls }, '', 'the node'),
      targetOfUrl('redis://a', '', 'the node'),
    ];

    const areUnverified = ['1', '0'].map((value) => {
      process.env.NODE_TLS_REJECT_UNAUTHORIZED = value;
      return targets.map(({ isUnverified }) => isUnverified);
    });

    expect(areUnverified).toEqual([
      [false, false, false, false],
      [true, true, false, false],
    ]);
  });

  function temporaryDirectory(): string {
    const directory = mkdtempSync(join(tmpdir(), 'nestjs-locked-inputs-'));
    afterTest(() => rmSync(directory, { recursive: true, force: true }));
    return directory;
  }
});
