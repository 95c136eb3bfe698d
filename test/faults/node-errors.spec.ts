// The refusals of PROTOCOL.md section 11 that need more than a setting to provoke on a real
// server. The others are in test/nodes/redis-node.faults.spec.ts.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it } from '@jest/globals';

import type { RedlockOptions } from '../../lib/core/options.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import {
  acquire,
  extend,
  inspect,
  release,
  requestFor,
  testNodes,
  worldOf,
} from '../support/node-harness.js';
import { startNode, startServer } from '../support/servers-of-test.js';

const refused = { vote: 'failed', mayHold: false, isMisconfiguration: false } as const;
const misconfigured = { ...refused, isMisconfiguration: true } as const;

describe('a server that cannot save (MISCONF)', () => {
  it('refuses without a key, and votes again when it may do without', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-unwritable-'));
    afterTest(() => rmSync(folder, { recursive: true, force: true }));
    const server = await startServer('--dir', folder, '--save', '3600 1');
    const { node } = await startNode(server.url);
    // A folder that is gone refuses root, too.
    rmSync(folder, { recursive: true });
    await server.client.call('BGSAVE').catch(() => undefined);
    await eventually(async () => {
      const info = String(await server.client.call('INFO', 'persistence'));
      return info.includes('rdb_last_bgsave_status:err');
    });

    const answers = [await acquire(node, requestFor()), await inspect(node, worldOf(), 'r')];
    await server.client.call('CONFIG', 'SET', 'stop-writes-on-bgsave-error', 'no');

    expect(answers[0]).toMatchObject({ ...refused, message: expect.stringMatching(/^MISCONF /) });
    expect(answers[1]).toMatchObject({ ownerId: null });
    expect(await acquire(node, requestFor())).toMatchObject({ vote: 'granted' });
  });
});

describe('a server whose data is not to be had', () => {
  it('(MASTERDOWN) refuses while it waits for its master, and votes again when promoted', async () => {
    const server = await startServer('--replica-serve-stale-data', 'no');
    const { node } = await startNode(server.url);
    await server.client.call('REPLICAOF', '127.0.0.1', '1');

    const request = requestFor();
    const answers = [
      await acquire(node, request),
      await extend(node, request),
      await release(node, request),
    ];
    await server.client.call('REPLICAOF', 'NO', 'ONE');

    for (const answer of answers) {
      expect(answer).toMatchObject({ ...refused, message: expect.stringMatching(/^MASTERDOWN /) });
    }
    expect(await acquire(node, requestFor())).toMatchObject({ vote: 'granted' });
  });

  it('(LOADING) refuses over a connection that it has had before, which stays', async () => {
    const server = await startServer('--enable-debug-command', 'yes', '--rdbcompression', 'no');
    const { node, log } = await startNode(server.url);
    await server.client.call('DEBUG', 'POPULATE', '300', 'key', '2000');
    await server.client.call('CONFIG', 'SET', 'key-load-delay', '2000');
    await server.client.call('CONFIG', 'SET', 'loading-process-events-interval-bytes', '1024');
    const reloaded = server.client.call('DEBUG', 'RELOAD');
    // Answered when the loading has begun: before that the server listens to nobody.
    const answer = await acquire(node, requestFor());
    await reloaded;

    expect(answer).toMatchObject({ ...refused, message: expect.stringMatching(/^LOADING /) });
    expect(await acquire(node, requestFor())).toMatchObject({ vote: 'granted' });
    expect(log.messages).toEqual([
      'Connected.',
      expect.stringMatching(/^It refuses locks: LOADING /),
    ]);
  });
});

describe('a server that is part of a Redis Cluster', () => {
  const clustered = ['--cluster-enabled', 'yes', '--cluster-require-full-coverage', 'no'];
  const inOneSlot: RedlockOptions = { keyPrefix: '{locks}:' };
  const request = (): ReturnType<typeof requestFor> =>
    requestFor({ world: worldOf(inOneSlot), ttl: 60_000 });

  it('(CLUSTERDOWN) is down until it has slots', async () => {
    const server = await startServer(...clustered);
    const nodes = testNodes([server.url]);
    afterTest(() => nodes.close());
    await nodes.log.untilState('down');

    const answer = await acquire(nodes.node, requestFor());
    await server.client.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    const { status } = await nodes.log.untilState('up');

    expect(answer).toMatchObject({ ...refused, message: expect.stringMatching(/^CLUSTERDOWN /) });
    expect(status.findings).toEqual([expect.stringContaining('part of a Redis Cluster')]);
  });

  it('(CROSSSLOT) is misconfigured, unless all keys are in one slot', async () => {
    const server = await startServer(...clustered);
    await server.client.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    const { node } = await startNode(server.url);
    const { node: nodeInOneSlot } = await startNode(server.url, inOneSlot);
    const answers: unknown[] = [];

    // A cluster of one is up when it has noticed.
    await eventually(async () => {
      const answer = await acquire(node, requestFor());
      if ('message' in answer && answer.message.startsWith('CLUSTERDOWN')) return false;
      return answers.push(answer, await acquire(nodeInOneSlot, request())) > 0;
    });

    expect(answers[0]).toMatchObject({
      ...misconfigured,
      message: expect.stringMatching(/^CROSSSLOT /),
    });
    expect(answers[1]).toMatchObject({ vote: 'granted' });
  });

  it('(ASK or TRYAGAIN, MOVED) refuses keys that move to another server', async () => {
    const [server, other] = [await startServer(...clustered), await startServer(...clustered)];
    await server.client.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    const { node } = await startNode(server.url, inOneSlot);
    await server.client.call('CLUSTER', 'MEET', '127.0.0.1', `${other.port}`);
    const id = String(await other.client.call('CLUSTER', 'MYID'));
    const slot = String(await server.client.call('CLUSTER', 'KEYSLOT', '{locks}'));
    const setSlot = (...to: string[]): Promise<unknown> =>
      server.client.call('CLUSTER', 'SETSLOT', slot, ...to);
    await eventually(() =>
      setSlot('MIGRATING', id).then(
        () => true,
        () => false,
      ),
    );
    await eventually(async () => (await acquire(node, request())).vote === 'failed');

    const moving = await acquire(node, request());
    // Only an empty slot is given away.
    await server.client.call('FLUSHALL');
    await setSlot('NODE', id);
    const moved = await acquire(node, request());

    expect(moving).toMatchObject({ vote: 'failed', mayHold: false });
    expect(moving).toMatchObject({ message: expect.stringMatching(/^(ASK|TRYAGAIN) /) });
    expect(moved).toMatchObject({ ...misconfigured, message: expect.stringMatching(/^MOVED /) });
  });
});
