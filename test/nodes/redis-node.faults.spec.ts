// What a Redis node does when its server hangs, dies, changes its role or refuses to serve.
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  systemEnvironment,
  type Environment,
  type TimerHandle,
} from '../../lib/core/environment.js';
import type { LockNode, ReleaseAnswer, ReleaseRequest } from '../../lib/core/lock-node.js';
import type { RedlockOptions } from '../../lib/core/options.js';
import type { Milliseconds } from '../../lib/core/units.js';
import type { NodeInput } from '../../lib/nodes/node-inputs.js';
import { afterTest } from '../support/after-test.js';
import { collectGarbage, untilCollected } from '../support/collect-garbage.js';
import { eventually } from '../support/eventually.js';
import {
  acquire,
  extend,
  inspect,
  release,
  requestFor,
  testNodes,
  worldOf,
  type TestNodes,
} from '../support/node-harness.js';
import { startRedisServer, type RedisServer } from '../support/redis-servers.js';
import { callsOn, replidOf } from '../support/server-info.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.js';

/** A node is suspended after 100 ms of silence and dropped after 300. */
const IMPATIENT: RedlockOptions = { nodeTimeout: 50, stallTimeout: 300 };

/** After four seconds. */
const PATIENT: RedlockOptions = { nodeTimeout: 2_000 };

/** So many inspections are much to owe, and half of them are little. */
const MANY = 1_400;

function inspectMany(node: LockNode, count: number): Promise<unknown> {
  const inspections = Array.from({ length: count }, () => inspect(node, worldOf(), 'r'));
  return Promise.all(inspections);
}

/** Resolves when what was asked for in this tick is on its way. */
function sent(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
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

const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown): void => void unhandled.push(reason);

beforeAll(() => void process.on('unhandledRejection', onUnhandled));

afterAll(() => {
  process.off('unhandledRejection', onUnhandled);
  expect(unhandled).toEqual([]);
});

async function startServer(...args: string[]): Promise<RedisServer & { client: Redis }> {
  const server = await startRedisServer({ args });
  afterTest(() => server.stop());
  // Without a greeting, so that a password may be given later.
  const client = new Redis(server.url, {
    protocol: 2,
    enableReadyCheck: false,
    disableClientInfo: true,
    retryStrategy: () => null,
  });
  client.on('error', () => undefined);
  afterTest(() => disconnect(client));
  return Object.assign(server, { client });
}

async function disconnect(client: Redis): Promise<void> {
  if (client.status === 'end') return;
  const ended = new Promise((resolve) => client.once('end', resolve));
  client.disconnect();
  await ended;
}

async function startProxy(server: RedisServer): Promise<TcpProxy> {
  const proxy = await startTcpProxy(server.port);
  afterTest(() => proxy.close());
  return proxy;
}

function startNodes(
  inputs: readonly NodeInput[],
  options: RedlockOptions = {},
  environment?: Environment,
): TestNodes {
  const nodes = testNodes(inputs, options, environment);
  afterTest(() => nodes.close());
  return nodes;
}

async function startNode(
  input: NodeInput,
  options: RedlockOptions = {},
  environment?: Environment,
): Promise<TestNodes> {
  const nodes = startNodes([input], options, environment);
  await nodes.log.untilState('up');
  return nodes;
}

async function callsOf(client: Redis, command: string): Promise<number> {
  return (await callsOn(client))[command] ?? 0;
}

/** Listens, and answers each command with what `reply` gives for its words, if anything. */
async function startPretender(reply: (words: string) => string | null) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (data) => {
      const commands = data.toString().split(/^(?=\*)/m);
      for (const words of commands) socket.write(reply(words) ?? '');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  afterTest(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    sockets,
    address: { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
  };
}

describe('a node that is closed', () => {
  it('leaves neither timer nor socket, whatever its server does', async () => {
    const [up, frozen] = [await startServer(), await startServer()];
    const [down, lost] = [await startServer(), await startServer()];
    await down.stop();
    await disconnect(lost.client);
    const before = resourceCount();
    const inputs = [up.url, frozen.url, down.url, lost.url];
    const { close, log, whenReady } = startNodes(inputs, { ...IMPATIENT, quarantine: true });
    await whenReady(60_000);
    await lost.stop();
    await log.until(
      ({ status: { name, state } }) => state === 'down' && name.includes(`:${lost.port}`),
    );
    frozen.freeze();

    await close();

    // Less than the 2 s after which ioredis destroys a socket by itself.
    await eventually(() => resourceCount() <= before, 1_000);
    frozen.thaw();
  });

  it('says so from the call on, while it waits for the last answers', async () => {
    const server = await startServer();
    const { close, log, node } = await startNode(server.url, IMPATIENT);
    server.freeze();
    const last = acquire(node, requestFor());

    const closing = close();
    const answer = await acquire(node, requestFor());
    const { state } = node.status();
    server.thaw();
    await closing;

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, message: 'closed' });
    expect(state).toBe('down');
    expect((await last).vote).toBe('granted');
    expect(log.messages).toEqual(['Connected.']);
  });

  it('begins no quarantine with the last answers', async () => {
    const server = await startServer();
    const options: RedlockOptions = { ...IMPATIENT, quarantine: true, ttlMax: 100 };
    const { close, log, node } = await startNode(server.url, options);
    await log.until(({ message }) => message === 'Its votes count.');
    const { length } = log.messages;
    await server.client.flushall();
    const last = acquire(node, requestFor({ world: worldOf(options), ttl: 100 }));

    await close();

    expect((await last).vote).toBe('quarantined');
    expect(log.messages).toHaveLength(length);
  });

  // First of all tests: what others leave for a moment would hide what this one leaves.
  function resourceCount(): number {
    const kinds = ['Timeout', 'TCPSocketWrap', 'TCPConnectWrap'];
    return process.getActiveResourcesInfo().filter((kind) => kinds.includes(kind)).length;
  }
});

describe('the timers of a node', () => {
  /** Which timers run; and of all, for how long they kept the process from its end, if they did. */
  function watchTimers() {
    const running = new Set<TimerHandle>();
    const holding: (Milliseconds | null)[] = [];
    const environment: Environment = {
      ...systemEnvironment,
      startTimer(delay, callback, holdsProcess) {
        holding.push(holdsProcess ? delay : null);
        const onEnd = (): void => {
          running.delete(timer);
          callback();
        };
        const timer = systemEnvironment.startTimer(delay, onEnd, holdsProcess);
        running.add(timer);
        return timer;
      },
      stopTimer(timer) {
        running.delete(timer);
        systemEnvironment.stopTimer(timer);
      },
    };
    return { environment, holding, running };
  }

  const ear = { onLive: () => undefined, onWake: () => undefined };

  it('keep no process from its end, but those that somebody waits for', async () => {
    const server = await startServer();
    const { environment, holding } = watchTimers();
    const nodes = startNodes([server.url], { quarantine: true }, environment);
    const { close, log, node } = nodes;
    const ready = nodes.whenReady(60_000);
    const waitedFor = holding.splice(-1);
    await ready;
    await acquire(node, requestFor());
    node.listen(worldOf(), 'r', ear);
    await eventually(async () => (await callsOf(server.client, 'subscribe')) === 1);

    await server.restart();
    await log.untilState('down');
    await log.untilState('up', log.events.length);
    const meanwhile = holding.splice(0);
    await close();

    // To connect and to connect anew, twice each; a quarantine; a look after the server.
    expect(meanwhile.length).toBeGreaterThanOrEqual(5);
    expect(new Set(meanwhile)).toEqual(new Set([null]));
    // For all nodes to be ready, and for the last answers of one that is closed: a nodeTimeout.
    expect([...waitedFor, ...holding]).toEqual([60_000, 500]);
  });

  it.each(['up', 'down', 'connecting'])('are stopped when it is closed while %s', async (state) => {
    const server = await startServer();
    const { environment, running } = watchTimers();
    if (state === 'connecting') server.freeze();
    const nodes = startNodes([server.url], { quarantine: true }, environment);
    const { close, log, node } = nodes;
    const ready = nodes.whenReady(60_000);
    if (state !== 'connecting') {
      await ready;
      await log.until(({ message }) => message.includes('do not count'));
      node.listen(worldOf(), 'r', ear);
      await eventually(async () => (await callsOf(server.client, 'subscribe')) === 1);
      void acquire(node, requestFor());
    }
    if (state === 'down') {
      await server.stop();
      await log.untilState('down');
    }
    const before = running.size;

    await close();
    await ready;

    expect(before).toBeGreaterThan(0);
    expect(running.size).toBe(0);
  });
});

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

    expect(duration).toBeLessThan(1_000);
    expect(answer).toMatchObject({ vote: 'failed', mayHold: false });
    expect(log.events.map(({ status }) => status.state)).toEqual(['up', 'suspended', 'up']);
    expect(log.messages[1]).toMatch(/^Suspended: silent for \d+ ms, commands unanswered: 1400\.$/);
  });

  it('is given its time where it owes little', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, PATIENT);
    await inspectMany(node, MANY);
    server.freeze();

    const inspected = inspectMany(node, MANY / 2);
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
  async function startLooked(server: RedisServer, options: RedlockOptions) {
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
    const nodes = await startNode(server.url, options, environment);
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

describe('a server that refuses writes for a while', () => {
  // Without fencing a server says the same each time that it grants.
  it.each([true, false])(
    'gets the release that it refused when it grants again, long before the ttl (fencing: %s)',
    async (fencing) => {
      const server = await startServer();
      const { node } = await startNode(server.url, { fencing });
      const world = worldOf({ fencing });
      const request = requestFor({ world, ttl: 60_000 });
      await acquire(node, request);
      await server.client.config('SET', 'min-replicas-to-write', '1');
      const refused = await release(node, request);
      await server.client.config('SET', 'min-replicas-to-write', '0');

      const granted = await acquire(node, requestFor({ world, resources: ['other'] }));

      expect(refused).toMatchObject({
        vote: 'failed',
        message: expect.stringMatching(/NOREPLICAS/),
      });
      expect(granted.vote).toBe('granted');
      await eventually(async () => (await server.client.exists('r')) === 0);
    },
  );
});

describe('a server that refused a release', () => {
  /** Asks for the answer; gives it, and who asked. */
  function ask(node: LockNode, request: ReleaseRequest): [Promise<string>, WeakRef<object>] {
    let onAnswer: (answer: ReleaseAnswer) => void = () => undefined;
    const vote = new Promise<string>((resolve) => {
      onAnswer = (answer) => resolve(answer.vote);
    });
    node.release(request, onAnswer);
    return [vote, new WeakRef(onAnswer)];
  }

  it('does not have the node keep who was answered, only what is to be sent again', async () => {
    const { client, url } = await startServer();
    const { node } = await startNode(url);
    const request = { ...requestFor({ ttl: 60_000 }), wakes: false };
    await acquire(node, request);
    await client.config('SET', 'min-replicas-to-write', '1');

    const [vote, asker] = ask(node, request);

    expect(await vote).toBe('failed');
    await untilCollected(asker);
    await client.config('SET', 'min-replicas-to-write', '0');
    await acquire(node, requestFor({ resources: ['other'] }));
    await eventually(async () => (await client.exists('r')) === 0);
  });
});

describe('a server that refused many releases', () => {
  const MANY_LOCKS = 300;

  async function startRefused() {
    const server = await startServer();
    const { node } = await startNode(server.url);
    const names = Array.from({ length: MANY_LOCKS }, (_, index) => `r${index}`);
    const requests = names.map((name) => requestFor({ resources: [name], ttl: 60_000 }));
    await Promise.all(requests.map((request) => acquire(node, request)));
    await server.client.config('SET', 'min-replicas-to-write', '1');
    await Promise.all(requests.map((request) => release(node, request)));
    return { ...server, names, node };
  }

  async function bytesSentTo(client: Redis): Promise<number> {
    return Number(/total_net_input_bytes:(\d+)/.exec(await client.info('stats'))?.[1]);
  }

  it('is not sent all of them with each vote, while it refuses them', async () => {
    const { client, node } = await startRefused();
    const before = await bytesSentTo(client);

    for (let attempt = 0; attempt < 50; attempt += 1) {
      const { vote } = await acquire(node, requestFor({ resources: ['r0'] }));
      expect(vote).toBe('taken');
    }

    // Each time some 200 for an acquisition, and as many for a release.
    expect((await bytesSentTo(client)) - before).toBeLessThan(50 * 1_000);
  });

  it('gets all of them when it does not any more, one that it cannot do among them', async () => {
    const { client, names, node } = await startRefused();
    await client.config('SET', 'min-replicas-to-write', '0');
    await client.del('r0', 'r1');
    await client.lpush('r0', 'of another type');

    const { vote } = await acquire(node, requestFor({ resources: ['other'] }));

    expect(vote).toBe('granted');
    await eventually(async () => (await client.exists(...names)) === 1);
    expect(node.status().findings).toEqual([expect.stringMatching(/refuses releases: WRONGTYPE/)]);
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

describe('a connection that breaks', () => {
  it('leaves no ghost: a command that was given up never runs later', async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const { log, node } = await startNode(proxy.url);
    proxy.holdRequests();
    const request = requestFor();
    const acquired = acquire(node, request);

    await proxy.close();
    await log.untilState('down');
    const whileClosed = await acquire(node, requestFor());
    proxy.pass();
    await proxy.open();
    await log.untilState('up', log.events.length);

    expect(await acquired).toMatchObject({ vote: 'failed', mayHold: true });
    expect(whileClosed).toMatchObject({ vote: 'failed', mayHold: false });
    expect(await inspect(node, request.world, 'r')).toMatchObject({ ownerId: null });
    expect(await callsOf(server.client, 'evalsha')).toBe(0);
  });

  it('takes the answer with it: unknown, and released on the next one', async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const { log, node } = await startNode(proxy.url);
    const request = requestFor({ ttl: 60_000 });
    proxy.holdReplies();
    const acquired = acquire(node, request);
    await eventually(async () => (await server.client.exists('r')) === 1);

    await proxy.close();
    await release(node, request);
    proxy.pass();
    await proxy.open();
    await log.untilState('up', log.events.length);

    expect(await acquired).toMatchObject({ vote: 'failed', mayHold: true });
    expect(await inspect(node, request.world, 'r')).toMatchObject({ ownerId: null });
  });

  it('takes a written release with it, and the next one delivers it before anything else', async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const { log, node } = await startNode(proxy.url);
    const request = requestFor({ ttl: 60_000 });
    await acquire(node, request);
    proxy.holdRequests();

    const released = release(node, request);
    proxy.cut();
    proxy.pass();
    await log.untilState('up', log.events.length);
    const next = await acquire(node, requestFor());

    expect(await released).toMatchObject({ vote: 'failed', mayHold: true });
    expect(next.vote).toBe('granted');
  });

  it('takes nothing with it that was answered: no release is sent twice', async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const { log, node } = await startNode(proxy.url);
    const request = requestFor({ ttl: 60_000 });
    await acquire(node, request);
    await release(node, request);

    proxy.cut();
    await log.untilState('down');
    await log.untilState('up', log.events.length);
    await inspect(node, request.world, 'r');

    expect(await callsOf(server.client, 'evalsha')).toBe(2);
  });

  it('is told once, however many attempts to connect fail', async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    await proxy.close();
    const { log, node } = startNodes([proxy.url]);
    await log.untilState('down');
    const { findings, state } = node.status();

    server.kill();
    await proxy.open();
    await eventually(() => proxy.connectionCount >= 3);
    await server.restart();
    await log.untilState('up');

    expect({ findings, state }).toEqual({ findings: [], state: 'down' });
    expect(log.events.map(({ status }) => status.state)).toEqual(['down', 'up']);
    expect(log.messages[0]).toMatch(/ECONNREFUSED/);
  });

  it('as soon as it is made is made less and less often', async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const environment = new SimulatedEnvironment();
    const { log } = await startNode(proxy.url, {}, environment);
    const lackOf = async (age: number): Promise<number> => {
      await environment.advance(age);
      const { connectionCount } = proxy;
      const before = log.events.length;
      proxy.cut();
      await log.untilState('down', before);
      const brokenAt = environment.now();
      await eventually(async () => {
        await environment.advance(25);
        return proxy.connectionCount > connectionCount;
      });
      await log.untilState('up', before);
      return environment.now() - brokenAt;
    };

    for (let count = 0; count < 6; count += 1) await lackOf(10);
    const lacks = [await lackOf(10), await lackOf(2_000)] as const;

    expect(lacks[0]).toBeGreaterThan(1_000);
    expect(lacks[1]).toBeLessThan(500);
  });

  it('does not keep the set from being ready when the server is down', async () => {
    const server = await startServer();
    await server.stop();
    const { node, whenReady } = startNodes([server.url]);

    await whenReady(60_000);

    expect(node.status().state).toBe('down');
  });

  it('does not keep close() waiting', async () => {
    const server = await startServer();
    const { close, node } = await startNode(server.url, IMPATIENT);
    server.freeze();
    const acquired = acquire(node, requestFor());

    await close();

    expect(await acquired).toMatchObject({ vote: 'failed', mayHold: true });
  });
});

describe('a server that refuses commands', () => {
  it('with OOM: no key, no misconfiguration', async () => {
    const server = await startServer();
    const { node } = await startNode(server.url);
    await server.client.config('SET', 'maxmemory', '1');

    const answer = await acquire(node, requestFor());

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: false });
    expect(answer).toMatchObject({ message: expect.stringMatching(/^OOM /) });
  });

  it('with NOREPLICAS: no key', async () => {
    const server = await startServer();
    const { node } = await startNode(server.url);
    await server.client.config('SET', 'min-replicas-to-write', '1');

    const answer = await acquire(node, requestFor());

    expect(answer).toMatchObject({ mayHold: false, isMisconfiguration: false });
    expect(answer).toMatchObject({ message: expect.stringMatching(/^NOREPLICAS /) });
    expect(await server.client.exists('r')).toBe(0);
  });

  it('with BUSY: no key', async () => {
    const server = await startServer('--busy-reply-threshold', '10');
    const { node } = await startNode(server.url);
    const busy = server.client.eval('while true do end', 0).catch(() => undefined);
    const helper = server.client.duplicate();
    afterTest(() => disconnect(helper));

    await eventually(async () => !(await helper.ping().catch(() => 'BUSY')).startsWith('P'));
    const answer = await acquire(node, requestFor());
    await helper.script('KILL');
    await busy;

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: false });
    expect(answer).toMatchObject({ message: expect.stringMatching(/^BUSY /) });
  });

  it('with LOADING at the greeting: down until it has loaded', async () => {
    const server = await startServer('--enable-debug-command', 'yes', '--rdbcompression', 'no');
    const { client } = server;
    await client.call('DEBUG', ['POPULATE', '300', 'key', '2000']);
    await client.config('SET', 'key-load-delay', '2000');
    await client.config('SET', 'loading-process-events-interval-bytes', '1024');
    const reloaded = client.call('DEBUG', ['RELOAD']);

    const { log, node } = startNodes([server.url]);
    await log.untilState('down');
    const answer = await acquire(node, requestFor());
    await reloaded;
    await log.untilState('up');

    expect(answer).toMatchObject({ mayHold: false, isMisconfiguration: false });
    expect(answer).toMatchObject({ message: expect.stringMatching(/^LOADING /) });
  });

  it('with WRONGTYPE: a misconfiguration', async () => {
    const server = await startServer();
    const { node } = await startNode(server.url);
    await server.client.lpush('r', 'x');

    const answers = [
      await acquire(node, requestFor()),
      await extend(node, requestFor()),
      await release(node, requestFor()),
      await inspect(node, worldOf(), 'r'),
    ];

    for (const answer of answers) {
      expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: true });
    }
  });

  it.each([
    { denied: 'set', keys: 0 },
    { denied: 'hset', keys: 1 },
  ])(
    'as the user may not run $denied: a misconfiguration, and $keys keys until the release',
    async ({ denied, keys }) => {
      const server = await startServer();
      const rights = ['~*', '&*', '+@all', `-${denied}`];
      await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', ...rights]);
      const { node } = await startNode(`redis://u:p@127.0.0.1:${server.port}`);
      const request = requestFor();

      const answer = await acquire(node, request);
      const left = await server.client.exists('r');
      const released = await release(node, request);

      expect(answer).toMatchObject({ vote: 'failed', mayHold: true, isMisconfiguration: true });
      expect(left).toBe(keys);
      expect(released.vote).toBe('done');
      expect(await server.client.exists('r')).toBe(0);
    },
  );

  it('to the release alone: a finding, and not sent again with each lock that is granted', async () => {
    const server = await startServer();
    await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', '~*', '&*', '+@all', '-del']);
    const { log, node } = await startNode(`redis://u:p@127.0.0.1:${server.port}`);
    const request = requestFor({ ttl: 60_000 });
    await acquire(node, request);

    const released = [await release(node, request), await release(node, request)];
    const calls = await callsOf(server.client, 'evalsha');
    await acquire(node, requestFor({ resources: ['other'] }));
    await acquire(node, requestFor({ resources: ['another'] }));

    const refusal = { vote: 'failed', isMisconfiguration: true };
    expect(released).toMatchObject([refusal, refusal]);
    expect(await callsOf(server.client, 'evalsha')).toBe(calls + 2);
    expect(node.status().findings).toEqual([expect.stringMatching(/^It refuses releases: /)]);
    expect(log.events.map(({ isTrouble }) => isTrouble)).toEqual([false, true]);
  });

  it('as the user may not write one of the keys: refused before any of them is written', async () => {
    const server = await startServer();
    const rights = ['%R~*', '~r', '~redlock:node', '~redlock:rules', '+@all'];
    await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', ...rights]);
    const { node } = await startNode(`redis://u:p@127.0.0.1:${server.port}`);

    const answer = await acquire(node, requestFor());

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: true });
    expect(await server.client.exists('r')).toBe(0);
  });

  it('as it does not know EVALSHA: a misconfiguration', async () => {
    const server = await startServer('--rename-command', 'EVALSHA', '');
    const { node } = await startNode(server.url);

    const answer = await acquire(node, requestFor());

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: true });
  });
});

describe('a server that is unfit', () => {
  it('because of a wrong password is refused, and told without the password', async () => {
    const server = await startServer('--requirepass', 'right');
    const input = `redis://:wrong-secret@127.0.0.1:${server.port}`;
    const { log, node, whenReady } = startNodes([input]);

    await expect(whenReady(60_000)).rejects.toThrow(/no quorum of 1 of 1.*WRONGPASS/);
    const answer = await acquire(node, requestFor());

    expect(node.status()).toMatchObject({ name: `${server.url}/0`, state: 'refused' });
    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: true });
    expect(JSON.stringify([answer, log.events])).not.toContain('wrong-secret');
  });

  it('because it knows no AUTH is refused, and told without the password', async () => {
    const server = await startServer('--rename-command', 'AUTH', '');
    const { log, node } = startNodes([server.url.replace('//', '//user:secret@')]);

    const { message } = await log.untilState('refused');
    const answer = await acquire(node, requestFor());

    expect(message).toMatch(/^ERR unknown command .auth.$/i);
    expect(JSON.stringify([answer, log.events])).not.toContain('secret');
  });

  it('because of a missing password is refused, and up when that is put right', async () => {
    const server = await startServer('--requirepass', 'right');
    const { log } = startNodes([server.url]);
    const refused = await log.untilState('refused');

    await server.client.auth('right');
    await server.client.config('SET', 'requirepass', '');
    const up = await log.untilState('up');

    expect(refused.message).toMatch(/^NOAUTH /);
    expect(up.status.findings).toEqual([]);
  });

  it('because scripts are denied is refused', async () => {
    const server = await startServer();
    await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', '~*', '+@all', '-eval']);

    const { log } = startNodes([`redis://u:p@127.0.0.1:${server.port}`]);

    expect((await log.untilState('refused')).message).toMatch(/^NOPERM /);
  });

  it.each([true, false])(
    'because the user has no right to its keys is refused (quarantine: %s)',
    async (quarantine) => {
      const server = await startServer();
      const rights = ['on', '>p', '~elsewhere:*', '+@all'];
      await server.client.call('ACL', ['SETUSER', 'u', ...rights]);

      const { log } = startNodes([`redis://u:p@127.0.0.1:${server.port}`], { quarantine });

      expect((await log.untilState('refused')).message).toMatch(/^NOPERM /);
    },
  );

  it('because it has no such database is refused, and does not lock in another one', async () => {
    const server = await startServer();

    const { log, node } = startNodes([`${server.url}/99`]);
    const { message } = await log.untilState('refused');
    const answer = await acquire(node, requestFor());

    expect(message).toMatch(/DB index is out of range/);
    expect(answer).toMatchObject({ vote: 'failed', mayHold: false });
  });

  it('because it answers oddly is not trusted', async () => {
    const { address } = await startPretender(() => '+OK\r\n');

    const { log, node } = startNodes([address]);
    const { message } = await log.untilState('down');
    const answer = await acquire(node, requestFor());

    expect(message).toMatch(/^redis:.* answered oddly$/);
    expect(answer).toMatchObject({ vote: 'failed', mayHold: false });
  });

  it('because it is a replica is refused, and is a node again once promoted', async () => {
    const master = await startServer();
    const replica = await startServer('--replicaof', '127.0.0.1', `${master.port}`);
    const { log, node } = startNodes([replica.url], { quarantine: true });
    const { message } = await log.untilState('refused');
    const answer = await acquire(node, requestFor());

    await replica.client.replicaof('NO', 'ONE');
    await log.untilState('up');

    expect(message).toMatch(/is a slave, and a node is a master/);
    expect(answer).toMatchObject({ vote: 'failed', isMisconfiguration: true, message });
    expect(node.status().quarantineRemaining).toBeGreaterThan(0);
  });

  it('because it became a replica (READONLY) is connected anew and refused', async () => {
    const [master, other] = [await startServer(), await startServer()];
    const { log, node } = await startNode(master.url);
    await master.client.replicaof('127.0.0.1', other.port);

    const answer = await acquire(node, requestFor());

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: false });
    expect(answer).toMatchObject({ message: expect.stringMatching(/^READONLY /) });
    await log.untilState('refused');
  });

  it('because it became a replica that may be written to is connected anew and refused', async () => {
    const [master, replica] = [
      await startServer('--repl-diskless-sync-delay', '0'),
      await startServer('--replica-read-only', 'no'),
    ];
    const options = { quarantine: true, ttlMax: 100 } as const;
    const { nodes, whenReady } = startNodes([master.url, replica.url], options);
    await whenReady(60_000);
    const [first, second] = nodes as [LockNode, LockNode];
    const request = (name: string) =>
      requestFor({ world: worldOf(options), resources: [name], ttl: 100 });
    await replica.client.replicaof('127.0.0.1', master.port);
    await eventually(async () =>
      (await replica.client.info('replication')).includes('master_link_status:up'),
    );
    // Its master, whose certificate it has, counts: so would it.
    await eventually(async () => (await acquire(first, request('r'))).vote === 'granted');

    const answer = await acquire(second, request('other'));

    expect(answer).toMatchObject({ vote: 'failed', mayHold: false, isMisconfiguration: false });
    expect(answer).toMatchObject({ message: 'READONLY It is a replica.' });
    await eventually(() => second.status().state === 'refused');
  });

  it('because another node is the very same server is refused', async () => {
    const server = await startServer();
    const inputs = [server.url, `redis://localhost:${server.port}/1`];
    const { log, nodes, whenReady } = startNodes(inputs);

    await expect(whenReady(60_000)).rejects.toThrow(RangeError);

    const states = nodes.map((node) => node.status().state).sort();
    expect(states).toEqual(['refused', 'up']);
    expect((await log.untilState('refused')).message).toMatch(/same server as redis:/);
  });
});

describe('two names of one server', () => {
  it('are one node, and the second is one when the first is gone', async () => {
    const server = await startServer();
    const proxies = [await startProxy(server), await startProxy(server)] as const;
    const { log, node } = startNodes(proxies.map(({ url }) => url));
    await Promise.all([log.untilState('up'), log.untilState('refused')]);
    const isFirstUp = node.status().state === 'up';
    const before = log.events.length;

    await proxies[isFirstUp ? 0 : 1].close();
    const { status } = await log.untilState('up', before);

    expect(status.name).toContain(`:${proxies[isFirstUp ? 1 : 0].port}`);
  });
});

describe('what an audit finds', () => {
  it('an eviction policy, connected replicas and an unfounded persistence are told once', async () => {
    const server = await startServer('--maxmemory-policy', 'allkeys-lru');
    await startServer('--replicaof', '127.0.0.1', `${server.port}`);
    await eventually(async () =>
      (await server.client.info('replication')).includes('connected_slaves:1'),
    );

    const { log } = await startNode({ url: server.url, persistent: true });
    const told = [...log.events];
    await server.stop();
    await log.untilState('down');

    const { findings } = told[0]?.status ?? {};
    expect(findings).toHaveLength(3);
    expect(findings?.join(' ')).toMatch(
      /allkeys-lru.*1 connected replica.*append-only file is off/,
    );
    expect(told).toMatchObject([{ isTrouble: true, message: findings?.join(' ') }]);
    // What was found stays known while it is away.
    expect(log.events[1]?.status.findings).toEqual(findings);
  });

  it('another ttlMax of the client before is told by each that connects, while they differ', async () => {
    const server = await startServer();
    const findingsOf = async (options: RedlockOptions): Promise<readonly string[]> => {
      const { log } = await startNode(server.url, { quarantine: true, ...options });
      return (await log.untilState('up')).status.findings;
    };

    const first = await findingsOf({ ttlMax: 30_000 });
    const other = await findingsOf({ ttlMax: 60_000 });
    const same = await findingsOf({ ttlMax: 60_000 });
    const again = await findingsOf({ ttlMax: 30_000 });
    const unfenced = await findingsOf({ ttlMax: 30_000, fencing: false });
    const alike = await findingsOf({ ttlMax: 30_000, fencing: false });
    const fenced = await findingsOf({ ttlMax: 30_000 });

    const byTtl = [expect.stringMatching(/goes by another ttlMax.*Set the same/)];
    const byFencing = [expect.stringMatching(/goes by another fencing/)];
    expect([first, other, same, again]).toEqual([[], byTtl, [], byTtl]);
    expect([unfenced, alike, fenced]).toEqual([byFencing, [], byFencing]);
  });

  it.each([
    { step: 0, findings: [] },
    { step: 60_000, findings: [/^Its clock and that of redis:.* differ by more than 1000 ms\.$/] },
  ])('a clock that differs from that of another server by $step ms', async ({ step, findings }) => {
    const [first, second] = [await startServer(), await startServer()];
    const proxy = await startProxy(second);
    await proxy.close();
    let passed = 0;
    // The clock by which the first was measured was wrong: to us, those of both are apart.
    const wallClock = (): number => systemEnvironment.wallClock() + passed;
    // In a process that has run for a day.
    const now = (): number => systemEnvironment.now() + 86_400_000;
    const environment: Environment = { ...systemEnvironment, now, wallClock };
    const { log } = startNodes([first.url, proxy.url], {}, environment);
    await log.untilState('up');

    passed = step;
    await proxy.open();
    const { status } = await log.until(
      ({ status: { name, state } }) => state === 'up' && name.includes(`:${proxy.port}`),
    );

    expect(status.findings).toEqual(findings.map((finding) => expect.stringMatching(finding)));
  });

  it('INFO is denied, inside scripts too', async () => {
    const server = await startServer();
    await server.client.call('ACL', ['SETUSER', 'u', 'on', '>p', '~*', '+@all', '-info']);

    const { log } = await startNode(`redis://u:p@127.0.0.1:${server.port}`, { quarantine: true });

    const { findings } = log.events[0]?.status ?? {};
    expect(findings).toEqual([
      expect.stringMatching(/INFO is denied: /),
      expect.stringMatching(/INFO is denied inside scripts/),
    ]);
  });
});

describe('a server that forgets (quarantine)', () => {
  // M is 111 ms.
  const SHORT: RedlockOptions = { quarantine: true, ttlMax: 100 };
  const BEGUN = /do not count for \d+ ms/;
  const OVER = 'Its votes count.';
  const request = (): ReturnType<typeof requestFor> =>
    requestFor({ world: worldOf(SHORT), ttl: 100 });

  it('is quarantined when it is new, and counts once that is over', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, SHORT);
    await log.until(({ message }) => BEGUN.test(message));
    const remaining = node.status().quarantineRemaining;

    await log.until(({ message }) => message === OVER);
    const answer = await acquire(node, request());

    expect(remaining).toBeGreaterThan(50);
    expect(node.status().quarantineRemaining).toBe(0);
    expect(answer.vote).toBe('granted');
  });

  it('is quarantined after FLUSHALL, which is told', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, SHORT);
    await log.until(({ message }) => message === OVER);
    const before = log.events.length;
    await server.client.flushall();

    const answers = ['r', 'other'].map((resource) =>
      acquire(node, { ...request(), resources: [resource] }),
    );

    const votes = (await Promise.all(answers)).map(({ vote }) => vote);
    expect(votes).toEqual(['quarantined', 'quarantined']);
    await log.until(({ message }) => message === OVER, before);
    expect(log.events.slice(before)).toMatchObject([
      { message: expect.stringMatching(BEGUN), isTrouble: true },
      { message: OVER, isTrouble: false },
    ]);
  });

  it('is not said to count before the last quarantine is over', async () => {
    const server = await startServer();
    const options: RedlockOptions = { quarantine: true, ttlMax: 1_000 };
    const { log, node } = await startNode(server.url, options);
    await eventually(() => node.status().quarantineRemaining < 900);
    await server.client.flushall();

    const { vote } = await acquire(node, requestFor({ world: worldOf(options), ttl: 100 }));
    const remaining = node.status().quarantineRemaining;
    await log.until(({ message }) => message === OVER);

    expect(vote).toBe('quarantined');
    expect(remaining).toBeGreaterThan(900);
    expect(node.status().quarantineRemaining).toBe(0);
    const messages = log.messages.map((message) => (BEGUN.test(message) ? 'begun' : message));
    expect(messages).toEqual(['Connected.', 'begun', OVER]);
  });

  it('is told of when all answers of the call that showed it were given', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, SHORT);
    await log.until(({ message }) => message === OVER);
    const { length } = log.events;
    await server.client.flushall();
    const world = worldOf(SHORT);

    const told = ['one', 'another'].map(
      (name) =>
        new Promise<number>((resolve) => {
          const asked = requestFor({ world, resources: [name], ttl: 100 });
          node.acquire(asked, () => resolve(log.events.length));
        }),
    );

    expect(await Promise.all(told)).toEqual([length, length]);
    await log.until(({ message }) => BEGUN.test(message), length);
  });

  it('is not said to count when it is gone by then', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, { quarantine: true, ttlMax: 1_000 });
    await log.until(({ message }) => BEGUN.test(message));

    await server.stop();
    await log.untilState('down');
    await eventually(() => node.status().quarantineRemaining === 0);
    await new Promise((resolve) => setTimeout(resolve, 50));

    expect(log.messages).not.toContain(OVER);
  });

  it('is quarantined after an empty restart, from the moment it is seen', async () => {
    const server = await startServer();
    const { log } = await startNode(server.url, SHORT);
    await log.until(({ message }) => message === OVER);
    const before = log.events.length;

    await server.restart();

    await log.untilState('up', before);
    await log.until(({ message }) => BEGUN.test(message), before);
  });

  it('is quarantined at its first replica, and again when the last has long been gone', async () => {
    const server = await startServer('--repl-backlog-ttl', '1');
    const { log, node } = await startNode(server.url, SHORT);
    await log.until(({ message }) => message === OVER);
    const voteFor = async (resource: string): Promise<string> =>
      (await acquire(node, { ...request(), resources: [resource] })).vote;
    const newHistory = async (former: string): Promise<string> => {
      await eventually(async () => (await replidOf(server.client)) !== former);
      return replidOf(server.client);
    };

    await server.client.save();
    const saved = await voteFor('saved');
    const origin = await replidOf(server.client);
    // As a replica does, and `redis-cli --rdb`.
    const replica = connect(server.port, '127.0.0.1').resume();
    afterTest(() => void replica.destroy());
    replica.write('SYNC\r\n');
    const copied = await newHistory(origin);
    const attached = await voteFor('attached');
    replica.destroy();
    await newHistory(copied);
    const gone = await voteFor('gone');

    expect([saved, attached, gone]).toEqual(['granted', 'quarantined', 'quarantined']);
  });

  it.each([
    { persistent: false, vote: 'quarantined' },
    { persistent: true, vote: 'granted' },
  ])(
    'restarted from an old snapshot answers $vote when persistent is $persistent',
    async ({ persistent, vote }) => {
      const server = await startServer();
      const { log, node } = await startNode({ url: server.url, persistent }, SHORT);
      await log.until(({ message }) => message === OVER);
      await server.client.save();
      const before = log.events.length;

      await server.restart();
      await log.untilState('up', before);
      const answer = await acquire(node, request());

      expect(answer.vote).toBe(vote);
    },
  );
});
