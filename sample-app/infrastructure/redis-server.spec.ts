import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';

import { afterEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';

import { compile } from '../../test/support/compile.js';
import { RedisServer, startRedisServers } from './redis-server.js';

describe('RedisServer', () => {
  const servers: RedisServer[] = [];

  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.kill()));
  });

  it('starts several empty servers on ports of their own', async () => {
    servers.push(...(await startRedisServers(3)));

    const sizes = await Promise.all(servers.map(({ url }) => ask(url, (redis) => redis.dbsize())));

    expect(sizes).toEqual([0, 0, 0]);
    expect(new Set(servers.map(({ url }) => url)).size).toBe(3);
  });

  it('is gone after kill, also when it was frozen', async () => {
    servers.push(...(await startRedisServers(2)));
    servers[0]?.freeze();

    await Promise.all(servers.map((server) => server.kill()));

    for (const { url } of servers) {
      await expect(once(socketTo(url), 'connect')).rejects.toThrow('ECONNREFUSED');
    }
  });

  it('accepts after two restarts at once, as by a double click', async () => {
    const server = await RedisServer.start();
    servers.push(server);

    await Promise.all([server.restart(), server.restart()]);

    expect(await ask(server.url, (redis) => redis.dbsize())).toBe(0);
  });

  it('is gone in the end when it is killed while it restarts', async () => {
    const server = await RedisServer.start();
    servers.push(server);

    await Promise.all([server.restart(), server.kill()]);

    expect(server.hasEnded).toBe(true);
  });

  it('ends when the process that started it is killed', async () => {
    const folder = compile('sample-app/infrastructure');
    const module = join(folder, 'sample-app/infrastructure/redis-server.js');
    const script = `
      import { RedisServer } from ${JSON.stringify(module)};
      console.log((await RedisServer.start()).url);
    `;
    const parent = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [url] = (await once(parent.stdout, 'data')) as [Buffer];
    const socket = socketTo(url.toString().trim());
    await once(socket, 'connect');
    rmSync(folder, { recursive: true });

    parent.kill('SIGKILL');

    // Seen by the end of the connection: only a child's end is reported to its parent.
    await new Promise((resolve) => socket.resume().once('close', resolve));
  });
});

function socketTo(url: string) {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  // A killed server may reset the connection.
  socket.on('error', () => undefined);
  return socket;
}

async function ask<T>(url: string, question: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url);
  try {
    return await question(redis);
  } finally {
    redis.disconnect();
  }
}
