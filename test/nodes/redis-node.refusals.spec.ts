import { describe, expect, it } from '@jest/globals';

import { systemEnvironment } from '../../lib/core/environment.js';
import { acquire, inspect, requestFor, worldOf } from '../support/node-harness.js';
import { expectNoUnhandledRejections, startNode, startServer } from '../support/servers-of-test.js';

expectNoUnhandledRejections();

describe('a server that refuses locks', () => {
  it.each([
    ['for want of memory', ['CONFIG', 'SET', 'maxmemory', '1'], /^OOM /],
    ['for want of replicas', ['CONFIG', 'SET', 'min-replicas-to-write', '1'], /^NOREPLICAS /],
    ['for want of a right', ['ACL', 'SETUSER', 'u', '-set'], /can't run|NOPERM|no permissions/i],
  ])('%s says so in a finding, by an acquisition or by a question', async (_, order, reason) => {
    const server = await startServer();
    await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', '~*', '&*', '+@all']);
    const url = `redis://u:p@127.0.0.1:${server.port}`;
    const [asked, questioned] = [await startNode(url), await startNode(url)];
    const [command = '', ...args] = order;
    await server.client.call(command, args);

    const [first, second] = [1, 2].map(() => acquire(asked.node, requestFor()));
    const found = await inspect(questioned.node, worldOf(), 'r');

    const finding = expect.stringMatching(/^It refuses locks: /);
    expect([await first, await second]).toMatchObject([{ vote: 'failed' }, { vote: 'failed' }]);
    expect(found).toMatchObject({ vote: 'found', ownerId: null });
    expect(found).toHaveProperty('refusal', expect.stringMatching(reason));
    for (const { log, node } of [asked, questioned]) {
      expect(node.status()).toMatchObject({ state: 'up', findings: [finding] });
      expect(log.messages.slice(1)).toEqual([finding]);
    }
  });

  // Without fencing a server says the same each time that it grants.
  it.each([true, false])('is believed when it grants again (fencing: %s)', async (fencing) => {
    const server = await startServer();
    let ahead = 0;
    const environment = { ...systemEnvironment, now: () => systemEnvironment.now() + ahead };
    const { log, node } = await startNode(server.url, { fencing }, environment);
    const lock = (resource: string) =>
      acquire(node, requestFor({ world: worldOf({ fencing }), resources: [resource] }));

    await lock('before');
    await server.client.config('SET', 'maxmemory', '1');
    await lock('meanwhile');
    await server.client.config('SET', 'maxmemory', '0');
    ahead = 10_000;
    await lock('after');

    expect(node.status().findings).toEqual([]);
    expect(log.messages.slice(1)).toEqual([
      expect.stringMatching(/^It refuses locks: OOM /),
      'It grants locks again.',
    ]);
  });

  it.each([
    ['locks', 'set'],
    ['locks', 'pexpire'],
    ['locks', 'hmget'],
    ['locks', 'hset'],
    ['locks', 'unlink'],
    ['locks', 'time'],
    ['releases', 'del'],
  ])(
    'is asked, and asked again, about all that it may refuse: %s for want of %s',
    async (what, right) => {
      const server = await startServer();
      const grant = (rights: string): Promise<unknown> =>
        server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', '~*', '&*', '+@all', rights]);
      await grant('+get');
      let ahead = 0;
      const environment = { ...systemEnvironment, now: () => systemEnvironment.now() + ahead };
      const url = `redis://u:p@127.0.0.1:${server.port}`;
      const { log, node } = await startNode(url, {}, environment);
      await inspect(node, worldOf(), 'r');

      await grant(`-${right}`);
      await inspect(node, worldOf(), 'r');
      ahead = 10_000;
      await inspect(node, worldOf(), 'r');
      const findings = node.status().findings;
      await grant(`+${right}`);
      ahead = 20_000;
      await inspect(node, worldOf(), 'r');

      expect(findings).toEqual([expect.stringMatching(`^It refuses ${what}: `)]);
      expect(node.status().findings).toEqual([]);
      const again = what === 'locks' ? ['It grants locks again.'] : [];
      expect(log.messages.slice(1)).toEqual([...findings, ...again]);
      expect(await server.client.exists('r')).toBe(0);
    },
  );

  it('is asked by what locks are asked by: EVAL alone is not enough', async () => {
    const server = await startServer();
    await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', '~*', '&*', '+@all', '-evalsha']);
    const { node } = await startNode(`redis://u:p@127.0.0.1:${server.port}`);

    expect(await inspect(node, worldOf(), 'r')).toMatchObject({
      vote: 'failed',
      isMisconfiguration: true,
    });
  });

  it('is asked without a write', async () => {
    const server = await startServer();
    const { node } = await startNode(server.url);
    const changes = async (): Promise<string | undefined> =>
      /rdb_changes_since_last_save:\d+/.exec(await server.client.info('persistence'))?.[0];
    const before = await changes();

    await inspect(node, worldOf(), 'r');

    expect(await changes()).toBe(before);
  });

  it('is not what a question about a key says that cannot be a lock', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url);
    await server.client.hset('r', 'a', '1');

    const found = await inspect(node, worldOf(), 'r');

    expect(found).toMatchObject({ vote: 'failed', message: expect.stringMatching(/^WRONGTYPE/) });
    expect([node.status().findings, log.messages.length]).toEqual([[], 1]);
  });

  it('is not said of one whose answer was lost, or that has become a replica', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url);
    const other = await startServer();
    await server.client.replicaof('127.0.0.1', other.port);

    const found = await inspect(node, worldOf(), 'r');
    await log.untilState('refused');

    expect(found).toMatchObject({ vote: 'failed', message: expect.stringMatching(/^READONLY/) });
    expect(log.messages.filter((message) => message.includes('refuses locks'))).toEqual([]);
  });
});
