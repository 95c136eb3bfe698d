// When a node that does not answer is suspended.
import { describe, expect, it } from '@jest/globals';

import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

import { systemEnvironment, type Environment } from '../../lib/core/environment.js';
import { RESOURCES_AT_ONCE_MAX } from '../../lib/core/first-attempts.js';
import type { RedlockOptions } from '../../lib/core/options.js';
import { afterTest } from '../support/after-test.js';
import { acquire, inspect, release, requestFor, worldOf } from '../support/node-harness.js';
import type { RedisServer } from '../support/redis-servers.js';
import {
  callsOf,
  expectNoUnhandledRejections,
  IMPATIENT,
  inspectMany,
  MANY,
  PATIENT,
  startNode,
  startNodes,
  startServer,
} from '../support/servers-of-test.js';

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

  it('is told of in the name of no call, whoever asked it', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, IMPATIENT);
    const calls = new AsyncLocalStorage<string>();
    const tellers = new Set<string | undefined>();
    // Until nobody looks after it any more.
    await sleep(100);
    server.freeze();

    void calls.run('a call', () => acquire(node, requestFor()));
    await log.until(({ status: { state } }) => {
      tellers.add(calls.getStore());
      return state === 'down';
    });
    server.thaw();

    expect([...tellers]).toEqual([undefined]);
  });

  it('is suspended within moments where it owes much', async () => {
    const server = await startServer();
    // Fifteen seconds of silence, where it owes little.
    const options = { nodeTimeout: 7_500, ttl: 30_000, stallTimeout: 60_000 };
    const { log, node } = await startNode(server.url, options);
    server.freeze();
    const frozenAt = performance.now();
    const inspected = inspectMany(node, MANY);

    await log.untilState('suspended');
    const duration = performance.now() - frozenAt;
    const answer = await acquire(node, requestFor());
    server.thaw();
    await inspected;

    // Mostly a second; the rest is for a busy machine.
    expect(duration).toBeLessThan(10_000);
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

  it('is given its time where it owes what a process asks at once', async () => {
    const server = await startServer();
    const { looks, node } = await startLooked(server, PATIENT);
    server.freeze();
    // All first attempts that may be under way, and as many releases.
    const world = worldOf();
    const requests = Array.from({ length: RESOURCES_AT_ONCE_MAX }, () => requestFor({ world }));
    for (const request of requests) void acquire(node, request);
    for (const request of requests) void release(node, request);
    // Sent when the tick ends.
    await sleep(0);

    expect(looks(4)).toEqual(['up', 'up', 'up', 'up']);
  });

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

  it('is not what a server is taken for that is asked nothing', async () => {
    const { looks } = await startLooked(await startServer(), IMPATIENT);

    const states = looks(20);

    expect(new Set(states)).toEqual(new Set(['up']));
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
});
