import { describe, expect, it } from '@jest/globals';

import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

import { systemEnvironment, type Environment } from '../../lib/core/environment.js';
import type { LockNode, ReleaseRequest } from '../../lib/core/lock-node.js';
import type { RedlockOptions } from '../../lib/core/options.js';
import { afterTest } from '../support/after-test.js';
import { collectGarbage, untilCollected } from '../support/collect-garbage.js';
import { eventually } from '../support/eventually.js';
import { acquire, inspect, release, requestFor, worldOf } from '../support/node-harness.js';
import type { RedisServer } from '../support/redis-servers.js';
import {
  callsOf,
  expectNoUnhandledRejections,
  IMPATIENT,
  sent,
  startNode,
  startNodes,
  startPretender,
  startProxy,
  startServer,
} from '../support/servers-of-test.js';

/** A node is suspended after four seconds of silence. */
const PATIENT: RedlockOptions = { nodeTimeout: 2_000 };

/** So many inspections are much to owe, and half of them are little. */
const MANY = 1_400;

function inspectMany(node: LockNode, count: number): Promise<unknown> {
  const inspections = Array.from({ length: count }, () => inspect(node, worldOf(), 'r'));
  return Promise.all(inspections);
}

/** The process does nothing else meanwhile. */
function blockFor(duration: number): void {
  const until = performance.now() + duration;
  while (performance.now() < until);
}

/** Gives what the node keeps of the release, which it cannot deliver. */
function releaseInVain(node: LockNode): WeakRef<ReleaseRequest> {
  const request = { ...requestFor({ ttl: 100 }), wakes: false };
  void acquire(node, request);
  node.release(request, () => undefined);
  return new WeakRef(request);
}

expectNoUnhandledRejections();

describe('a server that hangs (SIGSTOP)', () => {
  it('is suspended: votes fail at once, and nothing piles up', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, { ...IMPATIENT, stallTimeout: 60_000 });
    server.freeze();
    const first = acquire(node, requestFor());

    const { isTrouble } = await log.untilState('suspended');
    const answers = await Promise.all(
      Array.from({ length: 1_000 }, () => acquire(node, requestFor())),
    );
    server.thaw();

    expect(isTrouble).toBe(true);
    expect(answers[0]).toMatchObject({ vote: 'failed', mayHold: false });
    expect(new Set(answers.map(({ vote }) => vote))).toEqual(new Set(['failed']));
    expect((await first).vote).toBe('granted');
    expect(await callsOf(server.client, 'evalsha')).toBe(1);
  });

  it('is suspended within moments where it owes much', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, PATIENT);
    server.freeze();
    const frozenAt = performance.now();
    const inspected = inspectMany(node, MANY);

    await log.untilState('suspended');
    const duration = performance.now() - frozenAt;
    const answer = await acquire(node, requestFor());
    server.thaw();
    await inspected;

    // Far below the four seconds; the rest is for a busy machine.
    expect(duration).toBeLessThan(3_000);
    expect(answer).toMatchObject({ vote: 'failed', mayHold: false });
    expect(log.events.map(({ status }) => status.state)).toEqual(['up', 'suspended', 'up']);
    expect(log.messages[1]).toMatch(/^Suspended: silent for \d+ ms, commands unanswered: 2800\.$/);
  });

  it('is given its time where it owes little', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, PATIENT);
    await inspectMany(node, MANY);
    server.freeze();

    const inspected = inspectMany(node, MANY / 4);
    await sleep(500);
    server.thaw();
    await inspected;

    expect(log.events.map(({ status }) => status.state)).toEqual(['up']);
  });

  it('is not what a server is taken for that answers while this process is busy', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, PATIENT);

    for (let round = 0; round < 2; round += 1) {
      const inspected = inspectMany(node, MANY);
      await sent();
      blockFor(500);
      await inspected;
    }

    expect(log.events.map(({ status }) => status.state)).toEqual(['up']);
  });

  it('is not what a server is taken for whose answer waits until this process listens', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, IMPATIENT);
    const first = acquire(node, requestFor({ resources: ['first'] }));
    await sent();

    // Longer than a server may be silent before it is suspended, and before it is disconnected.
    blockFor(400);
    const second = acquire(node, requestFor({ resources: ['second'] }));

    expect([(await first).vote, (await second).vote]).toEqual(['granted', 'granted']);
    expect(log.events.map(({ status }) => status.state)).toEqual(['up']);
  });

  it('is not what a server is taken for that greets a process busy with its start', async () => {
    const server = await startServer();
    const { log } = startNodes([server.url], IMPATIENT);
    await sent();

    // Longer than a connection may take to be made.
    blockFor(400);
    await log.until(({ status: { state } }) => state !== 'connecting');

    expect(log.messages).toEqual(['Connected.']);
  });

  it('is judged by the node alone, whatever socketTimeout its ioredis options have', async () => {
    const { port } = await startServer();
    const { log, node } = await startNode({ port, socketTimeout: 100 }, IMPATIENT);
    const acquired = acquire(node, requestFor());
    await sent();

    // ioredis would look at its timer before it reads what has arrived.
    blockFor(200);

    expect((await acquired).vote).toBe('granted');
    expect(log.events.map(({ status }) => status.state)).toEqual(['up']);
  });

  it('is found out by a process, too, that pauses again and again', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, IMPATIENT);
    server.freeze();
    const acquired = acquire(node, requestFor());

    for (let pause = 0; pause < 100 && node.status().state !== 'down'; pause += 1) {
      await sent();
      blockFor(50);
    }

    expect(await acquired).toMatchObject({ vote: 'failed', mayHold: true });
    expect(log.events.map(({ status }) => status.state)).toEqual(['up', 'suspended', 'down']);
    expect(log.messages).toContainEqual(expect.stringMatching(/^silent for 3\d\d ms$/));
  });

  /** A node whose looks after its server happen when a test says so. */
  function createLooked(server: RedisServer, options: RedlockOptions) {
    let now = 0;
    let onLook: (() => void) | null = null;
    const environment: Environment = {
      ...systemEnvironment,
      now: () => now,
      startTimer(delay, callback, holdsProcess) {
        if (delay !== 30) return systemEnvironment.startTimer(delay, callback, holdsProcess);
        onLook = callback;
        return callback;
      },
      stopTimer(timer) {
        if (timer === onLook) onLook = null;
        else systemEnvironment.stopTimer(timer);
      },
    };
    const nodes = startNodes([server.url], options, environment);
    // Else its end would be waited for.
    afterTest(() => server.thaw());
    const look = (elapsed = 30): string => {
      now += elapsed;
      const due = onLook;
      onLook = null;
      due?.();
      return nodes.node.status().state;
    };
    const looks = (count: number): string[] => Array.from({ length: count }, () => look());
    return { ...nodes, look, looks };
  }

  /** The same, when it is up. */
  async function startLooked(server: RedisServer, options: RedlockOptions) {
    const looked = createLooked(server, options);
    await looked.log.untilState('up');
    return looked;
  }

  it('is suspended after three looks in a row that came on time', async () => {
    const server = await startServer();
    const { look, node } = await startLooked(server, PATIENT);
    server.freeze();
    void inspectMany(node, MANY);

    const states = [30, 30, 41, 30, 40, 30].map(look);

    expect(states).toEqual(['up', 'up', 'up', 'up', 'up', 'suspended']);
  });

  it('is given three looks again when it has answered', async () => {
    const server = await startServer();
    const { looks, node } = await startLooked(server, PATIENT);
    server.freeze();
    const inspected = inspectMany(node, MANY);
    const before = looks(2);
    server.thaw();
    await inspected;

    server.freeze();
    void inspectMany(node, MANY);
    const after = looks(3);

    expect([before, after]).toEqual([
      ['up', 'up'],
      ['up', 'up', 'suspended'],
    ]);
  });

  it('is given three looks when it is connected, however long that took', async () => {
    const server = await startServer();
    server.freeze();
    const { log, looks, node } = createLooked(server, PATIENT);
    looks(5);
    server.thaw();
    await log.untilState('up');

    server.freeze();
    void inspectMany(node, MANY);

    expect(looks(3)).toEqual(['up', 'up', 'suspended']);
  });

  it('is suspended and disconnected by the silence between looks', async () => {
    const server = await startServer();
    const { looks, node } = await startLooked(server, IMPATIENT);
    server.freeze();
    void inspect(node, worldOf(), 'r');

    const states = looks(11);

    // A silence of 120 ms at the fifth, and of 300 ms at the last.
    const suspended = Array<string>(6).fill('suspended');
    expect(states).toEqual(['up', 'up', 'up', 'up', ...suspended, 'down']);
  });

  it('is found out also when it was idle before', async () => {
    const server = await startServer();
    const { looks, node } = await startLooked(server, IMPATIENT);
    await inspect(node, worldOf(), 'r');
    const idle = looks(2);

    server.freeze();
    void inspect(node, worldOf(), 'r');

    expect([idle, looks(5).at(-1)]).toEqual([['up', 'up'], 'suspended']);
  });

  it('stays suspended until it has answered all that it was silent about', async () => {
    const server = await startServer();
    const { log, looks, node } = await startLooked(server, IMPATIENT);
    await inspect(node, worldOf(), 'r');
    server.freeze();
    const states: string[] = [];
    const onAnswer = (): void => void states.push(node.status().state);
    for (let count = 0; count < 3; count += 1) node.inspect(worldOf(), 'r', onAnswer);
    looks(5);

    server.thaw();
    await log.untilState('up', log.events.length);

    expect(states).toEqual(['suspended', 'suspended', 'suspended']);
    expect(log.events.map(({ status }) => status.state)).toEqual(['up', 'suspended', 'up']);
  });

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
    const storage = new AsyncLocalStorage<object>();
    const askInCall = async (): Promise<WeakRef<object>> => {
      const call = {};
      await storage.run(call, () => acquire(node, requestFor()));
      return new WeakRef(call);
    };
    server.freeze();

    const call = await askInCall();
    server.thaw();
    await log.untilState('up', log.events.length);

    await untilCollected(call);
  });

  it('is given up as long as it does not answer the greeting', async () => {
    const server = await startServer();
    server.freeze();

    const { log, node } = startNodes([server.url], IMPATIENT);
    await log.untilState('down');
    const answer = await acquire(node, requestFor());
    server.thaw();

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false });
    await log.untilState('up');
  });
});

describe('a Sentinel that hangs', () => {
  const startHung = () => startPretender(() => null);

  it('is left alone soon after the node is closed', async () => {
    const { address, sockets } = await startHung();
    const { close, log } = startNodes([{ sentinels: [address], name: 'main' }], IMPATIENT);
    await log.untilState('down');

    await close();
    const open = sockets.size;

    expect(open).toBeGreaterThan(0);
    await eventually(() => sockets.size === 0, 5_000);
  });

  it('does not keep the next one from being asked', async () => {
    const server = await startServer();
    const hung = await startHung();
    const works = await startPretender((words) => {
      if (!words.includes('sentinel')) return '+OK\r\n';
      if (words.includes('sentinels')) return '*0\r\n';
      return `*2\r\n$9\r\n127.0.0.1\r\n$${`${server.port}`.length}\r\n${server.port}\r\n`;
    });

    const { log } = startNodes([{ sentinels: [hung.address, works.address], name: 'main' }]);
    const { status } = await log.until(({ status: { state } }) => state !== 'connecting');

    expect(status.state).toBe('up');
  });
});
