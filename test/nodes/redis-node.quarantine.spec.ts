import { describe, expect, it } from '@jest/globals';

import { connect } from 'node:net';
import { setTimeout } from 'node:timers/promises';

import type { RedlockOptions } from '../../lib/core/options.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { acquire, extend, inspect, requestFor, worldOf } from '../support/node-harness.js';
import { replidOf } from '../support/server-info.js';
import { expectNoUnhandledRejections, startNode, startServer } from '../support/servers-of-test.js';

expectNoUnhandledRejections();

describe('a server that forgets (quarantine)', () => {
  // M is 1,020 ms: a busy machine needs a part of that between what begins it and what it refuses.
  // Without fencing, as a token would be stale a third of a second after it was proposed.
  const SHORT: RedlockOptions = { quarantine: true, ttlMax: 1_000, fencing: false };
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

  it('is quarantined from its first client on, however long it was up before', async () => {
    const server = await startServer();
    await setTimeout(worldOf(SHORT).quarantine);

    const { log, node } = await startNode(server.url, SHORT);
    await log.until(({ message }) => BEGUN.test(message));

    expect(node.status().quarantineRemaining).toBeGreaterThan(50);
  });

  it('is quarantined where clients without quarantine have used it, which they go on doing', async () => {
    const server = await startServer();
    const old = await startNode(server.url, { ...SHORT, quarantine: false });
    const unquarantined = { ...request(), world: worldOf({ ...SHORT, quarantine: false }) };
    await acquire(old.node, unquarantined);
    const { node } = await startNode(server.url, SHORT);

    const votes = [await acquire(node, { ...request(), resources: ['other'] })];
    votes.push(await acquire(old.node, { ...unquarantined, resources: ['third'] }));

    expect(votes.map(({ vote }) => vote)).toEqual(['quarantined', 'granted']);
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

  it.each(['is asked who holds a lock', 'extends one'])(
    'is quarantined after FLUSHALL as soon as it %s',
    async (occasion) => {
      const server = await startServer();
      const { log, node } = await startNode(server.url, SHORT);
      await log.until(({ message }) => message === OVER);
      await server.client.flushall();

      const asked = request();
      if (occasion === 'extends one') {
        // Creates its key anew, and finds it.
        await extend(node, asked);
        await extend(node, asked);
      } else await inspect(node, asked.world, 'r');

      expect(node.status().quarantineRemaining).toBeGreaterThan(0);
    },
  );

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
    await setTimeout(50);

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
