import { afterEach, describe, expect, it } from '@jest/globals';

import { once } from 'node:events';
import { connect } from 'node:net';

import { Redis } from 'ioredis';

import { startRedisServer, startRedisServers, type RedisServer } from './redis-servers.js';

describe('startRedisServer', () => {
  const servers: RedisServer[] = [];
  const clients: Redis[] = [];

  async function server(): Promise<RedisServer> {
    const started = await startRedisServer();
    servers.push(started);
    return started;
  }

  function client(port: number): Redis {
    const connected = new Redis({ port, retryStrategy: () => null, maxRetriesPerRequest: 0 });
    connected.on('error', () => undefined);
    clients.push(connected);
    return connected;
  }

  afterEach(async () => {
    for (const connected of clients.splice(0)) {
      // On a closed connection it starts a timer of 2 s, which nothing clears.
      if (connected.status !== 'end') connected.disconnect();
    }
    await Promise.all(servers.splice(0).map((started) => started.stop()));
  });

  it('resolves when the server answers', async () => {
    const { url, port } = await server();

    const answer = await client(port).ping();

    expect(answer).toBe('PONG');
    expect(url).toBe(`redis://127.0.0.1:${port}`);
  });

  it('passes further arguments on', async () => {
    const started = await startRedisServer({ args: ['--maxmemory', '3mb'] });
    servers.push(started);

    const answer = await client(started.port).config('GET', 'maxmemory');

    expect(answer).toEqual(['maxmemory', '3145728']);
  });

  it('starts several on ports of their own', async () => {
    const started = await startRedisServers(5);
    servers.push(...started);

    const answers = await Promise.all(started.map(({ port }) => client(port).ping()));

    expect(answers).toEqual(['PONG', 'PONG', 'PONG', 'PONG', 'PONG']);
    expect(new Set(started.map(({ port }) => port)).size).toBe(5);
  });

  it('restarts empty on the same port, as another process', async () => {
    const started = await server();
    const { pid, port } = started;
    await client(port).set('key', 'value');

    await started.restart();

    expect(await client(port).get('key')).toBeNull();
    expect(started.port).toBe(port);
    expect(started.pid).not.toBe(pid);
  });

  it('answers nothing while frozen, and everything once thawed', async () => {
    const started = await server();
    const connected = client(started.port);
    await connected.ping();
    started.freeze();
    const isLate = new Promise<string>((resolve) => setTimeout(resolve, 50, 'late'));

    const answer = connected.ping();
    const first = await Promise.race([answer, isLate]);
    started.thaw();

    expect(first).toBe('late');
    expect(await answer).toBe('PONG');
  });

  it('stops a frozen server, and one that was killed', async () => {
    const [frozen, killed] = [await server(), await server()];
    frozen.freeze();
    killed.kill();

    await Promise.all([frozen.stop(), killed.stop()]);

    for (const { port } of [frozen, killed]) {
      const socket = connect({ port, host: '127.0.0.1' });
      await expect(once(socket, 'connect')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    }
  });

  it('says why a server does not start', async () => {
    const { port } = await server();

    await expect(startRedisServer({ port })).rejects.toThrow(/address already in use/i);
    await expect(startRedisServer({ args: ['--no-such-option', '1'] })).rejects.toThrow(/ended/);
  });
});
