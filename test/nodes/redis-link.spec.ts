import { describe, expect, it } from '@jest/globals';

import {
  systemEnvironment,
  type Environment,
  type TimerHandle,
} from '../../lib/core/environment.js';
import type { RedlockOptions } from '../../lib/core/options.js';
import type { Milliseconds } from '../../lib/core/units.js';
import { eventually } from '../support/eventually.js';
import { acquire, release, requestFor, worldOf } from '../support/node-harness.js';
import {
  callsOf,
  disconnect,
  expectNoUnhandledRejections,
  IMPATIENT,
  startNode,
  startNodes,
  startServer,
} from '../support/servers-of-test.js';

expectNoUnhandledRejections();

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
    // A third of the ttlMax is what a token may be late on a busy machine.
    const options: RedlockOptions = { ...IMPATIENT, quarantine: true, ttlMax: 1_000 };
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

  it.each([
    ['up', 'works'],
    ['down', 'is gone'],
    ['down', 'hangs'],
    ['connecting', 'hangs'],
  ])('are stopped when it is closed while %s, as its server %s', async (state, what) => {
    const server = await startServer();
    const { environment, running } = watchTimers();
    if (state === 'connecting') server.freeze();
    const nodes = startNodes([server.url], { ...IMPATIENT, quarantine: true }, environment);
    const { close, log, node } = nodes;
    const ready = nodes.whenReady(60_000);
    if (state !== 'connecting') {
      await ready;
      await log.until(({ message }) => message.includes('do not count'));
      node.listen(worldOf(), 'r', ear);
      await eventually(async () => (await callsOf(server.client, 'subscribe')) === 1);
      if (what === 'hangs') server.freeze();
      void acquire(node, requestFor());
    }
    if (what === 'is gone') await server.stop();
    if (state === 'down') await log.untilState('down');
    const before = running.size;

    await close();
    await ready;
    server.thaw();

    expect(before).toBeGreaterThan(0);
    expect(running.size).toBe(0);
  });

  it.each(['before', 'while'])(
    'are stopped though a release was refused %s it was closed',
    async (moment) => {
      const { client, url } = await startServer();
      const { environment, running } = watchTimers();
      const { close, log, node } = startNodes([url], {}, environment);
      await log.untilState('up');
      const request = requestFor({ ttl: 60_000 });
      await acquire(node, request);
      await client.config('SET', 'min-replicas-to-write', '1');

      const refused = release(node, request);
      if (moment === 'before') await refused;
      await close();

      expect((await refused).vote).toBe('failed');
      expect(running.size).toBe(0);
    },
  );
});
