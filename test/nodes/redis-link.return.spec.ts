// What becomes of a suspended node: it answers again, or it is disconnected.
import { describe, expect, it } from '@jest/globals';

import { AsyncLocalStorage } from 'node:async_hooks';

import type { LockNode, ReleaseRequest } from '../../lib/core/lock-node.js';
import { collectGarbage, untilCollected } from '../support/collect-garbage.js';
import { eventually } from '../support/eventually.js';
import { acquire, release, requestFor, worldOf } from '../support/node-harness.js';
import {
  expectNoUnhandledRejections,
  IMPATIENT,
  startNode,
  startNodes,
  startProxy,
  startServer,
} from '../support/servers-of-test.js';

/** Gives what the node keeps of the release, which it cannot deliver. */
function releaseInVain(node: LockNode): WeakRef<ReleaseRequest> {
  const request = { ...requestFor({ ttl: 100 }), wakes: false };
  void acquire(node, request);
  node.release(request, () => undefined);
  return new WeakRef(request);
}

/** Gives what belongs to the call. */
async function askInCall(node: LockNode): Promise<WeakRef<object>> {
  const call = {};
  await new AsyncLocalStorage<object>().run(call, () => acquire(node, requestFor()));
  return new WeakRef(call);
}

expectNoUnhandledRejections();

describe('a server that hangs (SIGSTOP)', () => {
  it('keeps no release beyond its time, although none is noted while it is away', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, IMPATIENT);
    server.freeze();
    const kept = releaseInVain(node);
    await log.untilState('down');

    await eventually(() => {
      void acquire(node, requestFor());
      collectGarbage();
      return kept.deref() === undefined;
    });

    expect(node.status().state).not.toBe('up');
  });

  it('is up again when it answers', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, { ...IMPATIENT, stallTimeout: 60_000 });
    const live: boolean[] = [];
    const onLive = (isLive: boolean): void => void live.push(isLive);
    node.listen(worldOf(), 'r', { onLive, onWake: () => undefined });
    await eventually(() => live.length > 0);
    server.freeze();
    void acquire(node, requestFor());
    await log.untilState('suspended');

    server.thaw();
    await log.untilState('up', log.events.length);

    const answer = await acquire(node, requestFor({ resources: ['other'] }));
    expect(answer.vote).toBe('granted');
    expect(log.events.map(({ status }) => status.state)).toEqual(['up', 'suspended', 'up']);
    // Whoever listens went on to.
    expect(live).toEqual([true]);
  });

  it.each([true, false])(
    'loses the key of a failed attempt soon after SIGCONT (fencing: %s)',
    async (fencing) => {
      const server = await startServer();
      const options = { ...IMPATIENT, stallTimeout: 60_000, fencing };
      const { log, node } = await startNode(server.url, options);
      const request = requestFor({ world: worldOf({ fencing }), ttl: 60_000 });
      server.freeze();
      const acquired = acquire(node, request);
      await log.untilState('suspended');

      const released = await release(node, request);
      server.thaw();

      expect(released).toMatchObject({ vote: 'failed', mayHold: false });
      expect((await acquired).vote).toBe('granted');
      await eventually(async () => (await server.client.exists('r')) === 0);
    },
  );

  it('is disconnected after stallTimeout, and undone on the next connection', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, IMPATIENT);
    const request = requestFor({ ttl: 60_000 });
    server.freeze();

    const acquired = await acquire(node, request);
    await release(node, request);
    server.thaw();
    await log.untilState('up', log.events.length);

    expect(acquired).toMatchObject({
      vote: 'failed',
      mayHold: true,
      message: expect.stringMatching(/silent for \d+ ms/),
    });
    expect(log.events.map(({ status }) => status.state)).toEqual(['up', 'suspended', 'down', 'up']);
    await eventually(async () => (await server.client.exists('r')) === 0);
  });

  it('is disconnected by a reset, so that nothing written before arrives later', async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const { log, node } = await startNode(proxy.url, IMPATIENT);
    proxy.holdReplies();

    await acquire(node, requestFor());

    expect(log.messages).toContainEqual(expect.stringMatching(/silent for \d+ ms/));
    await eventually(() => proxy.resetCount === 1);
  });

  it('is connected anew without what belongs to the call whose silence ended it', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, IMPATIENT);
    server.freeze();

    const call = await askInCall(node);
    server.thaw();
    await log.untilState('up', log.events.length);

    await untilCollected(call);
  });

  it('is given up as long as it does not answer the greeting', async () => {
    const server = await startServer();
    server.freeze();

    const { log, node } = startNodes([server.url], IMPATIENT);
    const { message } = await log.untilState('down');
    const answer = await acquire(node, requestFor());
    server.thaw();

    expect(message).toBe('not connected and audited within 300 ms');
    expect(answer).toMatchObject({ vote: 'failed', mayHold: false });
    await log.untilState('up');
  });
});

describe('a server that became a replica', () => {
  it('is connected anew without what belongs to the call that found it out', async () => {
    const [master, other] = [await startServer(), await startServer()];
    const { log, node } = await startNode(master.url);
    await master.client.replicaof('127.0.0.1', other.port);

    const call = await askInCall(node);
    await log.untilState('refused');
    await master.client.replicaof('NO', 'ONE');
    await log.untilState('up', log.events.length);

    await untilCollected(call);
  });
});
