import { rmSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

import { buy } from './demo/buyer.js';
import { BoundProcess } from './infrastructure/bound-process.js';
import { startReplica, type Replica } from './demo/replica.js';
import { type RedisServer, startRedisServers } from './infrastructure/redis-server.js';
import { afterTest } from '../test/support/after-test.js';
import { compile } from '../test/support/compile.js';

describe('replicas over five Redis servers', () => {
  let folder: string;
  let servers: RedisServer[];
  let main: string;
  let start: () => Promise<Replica>;
  let replica: Replica;

  beforeAll(async () => {
    folder = compile('lib', 'sample-app');
    servers = await startRedisServers(6);
    const [store = '', ...nodes] = servers.map(({ url }) => url);
    main = join(folder, 'sample-app/main.js');
    start = () => startReplica({ nodes, store, isLocked: true, main });
    replica = await start();
    // Brand-new nodes grant nothing for 5 s; the answer comes when they do.
    await put(`${replica.url}/inventory/pear`, { stock: 10 });
  });

  afterAll(async () => {
    await replica.stop();
    await Promise.all(servers.map((server) => server.kill()));
    rmSync(folder, { recursive: true });
  });

  it('sell exactly what there is', async () => {
    const other = await start();
    const urls = [replica.url, other.url];

    const purchases = await Promise.all(
      Array.from({ length: 30 }, (_, index) => buy(urls[index % 2] ?? '', 'pear')),
    );

    expect(purchases.filter(({ outcome }) => outcome === 'sold')).toHaveLength(10);
    expect(purchases.filter(({ outcome }) => outcome === 'sold out')).toHaveLength(20);
    await other.stop();
  });

  it('are free of the locks of a killed one within the ttl', async () => {
    const doomed = await start();
    const lost = expect(post(`${doomed.url}/slow/import?seconds=60`)).rejects.toThrow();
    await until(replica, 'slow:import', 'held');

    await doomed.kill();
    const killedAt = performance.now();
    await until(replica, 'slow:import', 'free');

    // The ttl is 1 s; the rest allows for a busy machine.
    expect(performance.now() - killedAt).toBeLessThan(2_500);
    await lost;
  });

  it('that are told to stop finish what they do, and leave nothing locked', async () => {
    const leaving = await start();
    const slow = post(`${leaving.url}/slow/export?seconds=1`);
    await until(replica, 'slow:export', 'held');

    await leaving.stop();

    expect((await slow).status).toBe(201);
    expect(await stateOf(replica, 'slow:export')).toBe('free');
  });

  it.each([
    ['is taken', () => new URL(replica.url).port],
    ['is no number', () => 'http'],
  ])('say what to do when their port %s', async (_what, port) => {
    const env = { ...process.env, PORT: port(), REDIS_NODES: servers[0]?.url };
    // Not as a replica: where the test fails it listens, and has to be ended.
    const late = new BoundProcess(process.execPath, [main], env);
    afterTest(() => late.end('SIGKILL'));

    await expect(late.line(/listening on/)).rejects.toThrow(/PORT=0 is a free port/);
  });
});

async function until(replica: Replica, resource: string, state: string): Promise<void> {
  while ((await stateOf(replica, resource)) !== state);
}

async function stateOf(replica: Replica, resource: string): Promise<string> {
  const response = await fetch(`${replica.url}/locks/status?resource=${resource}`);
  const status = (await response.json()) as { resource: { state: string } };
  return status.resource.state;
}

async function post(url: string): Promise<Response> {
  // A stopping replica waits for connections that are kept alive after their last answer.
  return fetch(url, { method: 'POST', headers: { connection: 'close' } });
}

async function put(url: string, body: object): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return fetch(url, { method: 'PUT', headers, body: JSON.stringify(body) });
}
