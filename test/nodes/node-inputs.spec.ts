import { describe, expect, it } from '@jest/globals';
import { EventEmitter } from 'node:events';

import { Cluster, type RedisOptions } from 'ioredis';

import { MemoryNode } from '../../lib/nodes/memory-node.js';
import { create, idleClient } from './created-nodes.js';

function nameOf(input: unknown): string | undefined {
  return create([input]).nodes[0]?.name;
}

const answer = (): void => {};

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
  { host: 'redis://example.test', password: 'secret' },
  { host: 'u:secret@example.test', port: 6379 },
  { path: 'redis://u:secret@example.test' },
  { sentinels: [{ host: 'a' }, { host: 'rediss://:secret@example.test' }], name: 'main' },
  { sentinels: [{ host: ':secret@example.test' }], name: 'main' },
];

describe('what a node may be named by', () => {
  it.each([
    ['redis://localhost', 'redis://localhost:6379/0'],
    ['redis:///2', 'redis://localhost:6379/2'],
    // As a list out of a variable leaves them, split at its commas.
    [' redis://example.test ', 'redis://example.test:6379/0'],
    ['REDISS://example.test', 'rediss://example.test:6379/0'],
    ['redis://Example.test:7000/3', 'redis://example.test:7000/3'],
    ['rediss://user:secret@example.test', 'rediss://example.test:6379/0'],
    ['redis://:p%40ss@[::1]:7000?family=6', 'redis://[::1]:7000/0'],
    ['redis://example.test?family=0', 'redis://example.test:6379/0'],
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
    [{ host: 'example.test', path: '' }, 'redis://example.test:6379/0'],
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
    'redis://u:secret@example.test?family=5',
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
    { host: 'a', sentinels: [], name: 'main', sentinelPassword: 'secret' },
    { url: 7 },
    { client: 'nothing', host: 'example.test' },
    { url: 'redis://example.test', password: 'secret' },
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
    { sentinels: [{ host: 'a' }], sentinelPassword: 'secret' },
    { sentinels: [{ host: 'a' }], name: '', sentinelPassword: 'secret' },
    // ioredis would throw when it connects, in a callback of its own.
    { host: 'example.test', connectTimeout: '1s', password: 'secret' },
    [],
    nodeRedisClient,
    { client: nodeRedisClient },
    { duplicate: answer, call: answer },
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

  it.each(['p#w', 'p/w', 'p?w', 'p%w'])(
    'with the password %s is told what it needs',
    (password) => {
      const refused = (): unknown => create([`redis://u:${password}@example.test`]);

      expect(refused).toThrow(/percent-encoded/);
      expect(refused).not.toThrow(/p.w@/);
    },
  );

  it('needs no prefix of its own where the locks have one', () => {
    const { nodes } = create([{ host: 'example.test' }], { keyPrefix: 'app:' });

    expect(nodes).toHaveLength(1);
  });

  it('shows a number that is an empty text as one', () => {
    const refused = (): unknown => create([{ host: 'example.test', db: '' }]);

    expect(refused).toThrow(/^Expected nodes\[0\]\.db to be a whole number, got ""$/);
  });

  it('is not the hole that a comma too many leaves', () => {
    expect(() => create(new Array(1))).toThrow(/^Expected nodes\[0\] to be .*, got undefined$/);
  });

  it('names the scheme that it does not know', () => {
    expect(() => create(['http://example.test'])).toThrow(/nodes\[0\].*"http:\/\/"/);
    expect(() => create(['example.test:6379'])).toThrow(/nodes\[0\].*got no scheme$/);
    // Of a variable that is set to nothing.
    expect(() => create([{ url: '' }])).toThrow(/nodes\[0\].*got no scheme$/);
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
