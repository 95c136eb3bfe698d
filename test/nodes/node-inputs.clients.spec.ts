// Nodes named by an application's own ioredis client.
import { once } from 'node:events';

import { describe, expect, it, jest } from '@jest/globals';

import { Redis, type RedisOptions } from 'ioredis';

import type { NodeInput } from '../../lib/nodes/node-inputs.js';
import { targetOfClient, type RedisClient } from '../../lib/nodes/redis-target.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { acquire, release, requestFor, worldOf } from '../support/node-harness.js';
import { startServer } from '../support/servers-of-test.js';
import { create, idleClient } from './created-nodes.js';

/** What another copy of ioredis declares: to the compiler its classes are none of ours. */
interface OtherOptions extends Omit<RedisOptions, 'Connector'> {
  readonly Connector?: new () => object;
}
declare class OtherRedis {
  private readonly stream: unknown;
  readonly options: OtherOptions;
  readonly isCluster: boolean;
  duplicate(override?: Partial<OtherOptions>): OtherRedis;
  call(command: string, ...given: readonly unknown[]): Promise<unknown>;
}

describe("an application's ioredis client", () => {
  async function startClient(keyPrefix = ''): Promise<Redis> {
    const server = await startServer();
    const client = new Redis(server.url, { keyPrefix });
    afterTest(() => client.quit());
    // Until then it sends some commands already, as CLIENT is, and is not ready when they are answered.
    await once(client, 'ready');
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

  it('may be of another copy of ioredis, also by its type', () => {
    const client = idleClient({ host: 'example.test' }) as unknown as OtherRedis;
    const inputs: NodeInput[] = [client, { client, persistent: true }];

    const names = inputs.map((input) => create([input]).nodes[0]?.name);

    expect(names).toEqual(['redis://example.test:6379/0', 'redis://example.test:6379/0']);
  });

  it('needs to have no more than its type says', () => {
    const whole = idleClient({ host: 'example.test' });
    const { options } = whole;
    const client = { options, duplicate: () => whole.duplicate(), call: () => whole.ping() };

    const { nodes } = create([client satisfies RedisClient]);

    expect(nodes.map(({ name }) => name)).toEqual(['redis://example.test:6379/0']);
  });

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

  it('that cannot be duplicated leaves no connection to the nodes before it', async () => {
    const { client, url } = await startServer();
    const broken = Object.assign(idleClient({ host: 'example.test' }), {
      duplicate: () => {
        throw new Error('no duplicate');
      },
    });

    expect(() => create([url, broken])).toThrow('no duplicate');

    // By then the server would have accepted one.
    await new Promise((resolve) => setTimeout(resolve, 200));
    const connections = String(await client.client('LIST'))
      .trim()
      .split('\n');
    expect(connections).toHaveLength(1);
  });

  it('that throws at a later connection is asked for the next one', async () => {
    const server = await startServer();
    const client = new Redis({ port: server.port, lazyConnect: true });
    afterTest(() => client.disconnect());
    const { nodes, whenReady } = create([client]);
    await whenReady(60_000);
    const [node] = nodes;
    if (node === undefined) throw new Error('No node.');
    const live: boolean[] = [];
    const throwing = jest.spyOn(client, 'duplicate').mockImplementation(() => {
      throw new Error('no certificate');
    });
    afterTest(() => throwing.mockRestore());

    node.listen(worldOf(), 'r', { onLive: (isLive) => live.push(isLive), onWake: jest.fn() });
    await server.client.call('CLIENT', 'KILL', 'SKIPME', 'yes');
    await eventually(() => throwing.mock.calls.length > 3);
    const answer = await acquire(node, requestFor());
    throwing.mockRestore();

    expect(answer).toMatchObject({ mayHold: false, message: 'Error: no certificate' });
    await eventually(() => node.status().state === 'up' && live.includes(true));
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
      { vote: 'done', listeners: 0, overdue: 0 },
    ]);
    expect(client.status).toBe('wait');
  });

  it('may be given another password: the next connection of the locks has that', async () => {
    const server = await startServer();
    const setPassword = (password: string) =>
      server.client.call('ACL', 'SETUSER', 'locks', 'on', 'allcommands', '~*', `>${password}`);
    await setPassword('old');
    const { port } = server;
    const client = new Redis({ port, username: 'locks', password: 'old', lazyConnect: true });
    afterTest(() => client.disconnect());
    const { nodes, whenReady } = create([client]);
    await whenReady(60_000);
    const state = () => nodes[0]?.status().state;
    await server.client.call('ACL', 'DELUSER', 'locks');
    await eventually(() => state() === 'refused');
    await setPassword('new');

    client.options.password = 'new';

    await eventually(() => state() === 'up');
  });

  it('may be given other certificates: the next connection of the locks has those', () => {
    const client = idleClient({ host: 'example.test', tls: { cert: 'old' } });
    const target = targetOfClient(client, '', 'the node');
    const certs = jest.spyOn(client, 'duplicate').mockReturnValue(client);

    target.connect();
    client.options.tls = { cert: 'new' };
    target.connect();

    expect(certs.mock.calls.map(([{ tls } = {}]) => tls?.cert)).toEqual(['old', 'new']);
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
