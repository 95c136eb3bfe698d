import { AsyncLocalStorage } from 'node:async_hooks';

import { describe, expect, it } from '@jest/globals';

import { Redlock } from '../../lib/core/redlock.js';
import { systemEnvironment } from '../../lib/core/environment.js';
import { RoundTimers, type RoundTimer } from '../../lib/core/round-timers.js';
import { blockFor } from '../support/block-for.js';
import { startNodes, startProxy, startServer } from '../support/servers-of-test.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';

function setUp() {
  const environment = new SimulatedEnvironment();
  const startedAt = environment.now();
  const endedAfter: number[] = [];
  const onTimeout = (): number => endedAfter.push(environment.now() - startedAt);
  const timer = new RoundTimers(environment).start(50, onTimeout);
  return { environment, timer, endedAfter };
}

describe('a round that nobody answers', () => {
  it('ends after its time', async () => {
    const { environment, endedAfter } = setUp();

    await environment.advance(1_000);

    expect(endedAfter).toEqual([50]);
    expect(environment.pendingTimers).toBe(0);
  });

  it('has its time once more where its process was busy until that was over', async () => {
    const { environment, endedAfter } = setUp();

    environment.block(60);
    await environment.advance(1_000);

    expect(endedAfter).toEqual([110]);
  });

  it('ends then, though its process was busy again', async () => {
    const { environment, endedAfter } = setUp();

    environment.block(60);
    await environment.advance(1);
    environment.block(200);
    await environment.advance(1_000);

    expect(endedAfter).toEqual([261]);
  });

  it.each([
    ['before its time is over', 0],
    ['when it has its time once more', 60],
  ])('is ended by whoever needs it no longer, %s', async (_when, busy) => {
    const { environment, timer, endedAfter } = setUp();

    environment.block(busy);
    await environment.advance(1);
    timer.stop();
    const timers = environment.pendingTimers;
    await environment.advance(1_000);

    expect(endedAfter).toEqual([]);
    // It would keep the process alive.
    expect(timers).toBe(0);
  });
});

describe('many rounds', () => {
  function setUpMany() {
    const environment = new SimulatedEnvironment();
    const timers = new RoundTimers(environment);
    const startedAt = environment.now();
    const ended: [string, number][] = [];
    const start = (name: string, timeout: number) =>
      timers.start(timeout, () => ended.push([name, environment.now() - startedAt]));
    return { environment, timers, ended, start };
  }

  it('with the same time have one timer, and end each at its own moment', async () => {
    const { environment, ended, start } = setUpMany();
    for (const name of ['a', 'b', 'c']) {
      start(name, 50);
      await environment.advance(10);
    }
    const timers = environment.pendingTimers;

    await environment.advance(1_000);

    expect(timers).toBe(1);
    expect(ended).toEqual([
      ['a', 50],
      ['b', 60],
      ['c', 70],
    ]);
    expect(environment.pendingTimers).toBe(0);
  });

  it('with other times do not wait for each other', async () => {
    const { environment, ended, start } = setUpMany();
    start('long', 500);
    start('short', 50);
    start('shorter', 25.5);

    await environment.advance(1_000);

    expect(ended.map(([name]) => name)).toEqual(['shorter', 'short', 'long']);
    expect(ended.at(-1)).toEqual(['long', 500]);
  });

  it.each([0, 1, 2])('end as they would where number %i of them is ended early', async (index) => {
    const { environment, ended, start } = setUpMany();
    const names = ['a', 'b', 'c'];
    const rounds: RoundTimer[] = [];
    for (const name of names) {
      rounds.push(start(name, 50));
      await environment.advance(10);
    }

    rounds[index]?.stop();
    rounds[index]?.stop();
    await environment.advance(1_000);

    const expected = names.map((name, place) => [name, 50 + 10 * place]);
    expect(ended).toEqual(expected.filter(([name]) => name !== names[index]));
    expect(environment.pendingTimers).toBe(0);
  });

  it('may be started and ended by one that ends', async () => {
    const { environment, timers, ended, start } = setUpMany();
    timers.start(50, () => {
      second.stop();
      start('started', 50);
    });
    const second = start('second', 50);
    await environment.advance(10);
    start('third', 50);

    await environment.advance(1_000);

    expect(ended).toEqual([
      ['third', 60],
      ['started', 100],
    ]);
  });

  it('have their time once more in one go where their process was busy', async () => {
    const { environment, ended, start } = setUpMany();
    start('a', 50);
    await environment.advance(10);
    start('b', 50);

    environment.block(100);
    await environment.advance(1_000);

    expect(ended).toEqual([
      ['a', 160],
      ['b', 160],
    ]);
  });

  it('end in the async context of none of their callers', async () => {
    const context = new AsyncLocalStorage<string>();
    const timers = new RoundTimers(systemEnvironment);

    const seen = await Promise.all(
      ['a', 'b'].map(
        (caller) =>
          new Promise((resolve) => {
            context.run(caller, () => timers.start(5, () => resolve(context.getStore())));
          }),
      ),
    );

    expect(seen).toEqual([undefined, undefined]);
  });
});

describe('a process that is busy for longer than its nodes may take, right after it has asked', () => {
  it('gets its lock, extends it and releases it all the same', async () => {
    const nodes = startNodes(await Promise.all([farServer(), farServer(), farServer()]));
    await nodes.whenReady(5_000);
    const redlock = new Redlock(nodes.nodes, { quarantine: false, nodeTimeout: 50 });

    for (let round = 0; round < 5; round += 1) {
      const acquired = redlock.acquire('a', 5_000, { wait: 0 });
      blockFor(100);
      const lock = await acquired;
      const extended = lock.extend();
      blockFor(100);
      await extended;
      const released = lock.release();
      blockFor(100);
      await released;

      expect(await redlock.inspect('a')).toMatchObject({ state: 'free' });
    }
    await redlock.close();
  });

  it('hears from each of them who holds a resource', async () => {
    const nodes = startNodes(await Promise.all([farServer(), farServer(), farServer()]));
    await nodes.whenReady(5_000);
    const redlock = new Redlock(nodes.nodes, { quarantine: false, nodeTimeout: 50 });

    for (let round = 0; round < 5; round += 1) {
      const inspected = redlock.inspect('a');
      blockFor(100);

      const states = (await inspected).nodes.map(({ state }) => state);
      expect(states).toEqual(['free', 'free', 'free']);
    }
    await redlock.close();
  });
});

/** A server whose answers take some turns of the event loop. */
async function farServer(): Promise<string> {
  const { url } = await startProxy(await startServer());
  return url;
}
