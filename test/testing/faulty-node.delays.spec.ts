import { describe, expect, it, jest } from '@jest/globals';
import { MemoryNode, type WakeListener } from 'nestjs-locked';
import { fakeTimersEnvironment, FaultyNode } from 'nestjs-locked/testing';

import { afterTest } from '../support/after-test.js';
import { lockOver } from './faulty-node-scene.js';
import { rejection, turn } from '../nest/support/events.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { acquire, inspect, requestFor, tokenAt, worldOf } from '../support/node-harness.js';

describe('a FaultyNode that hangs, is slow or is down', () => {
  it('hangs without an answer, and serves in order what has piled up when it is healed', async () => {
    const node = new FaultyNode();
    const request = requestFor();
    const answers: string[] = [];

    node.hang();
    node.acquire(request, ({ vote }) => answers.push(vote));
    node.release({ ...request, wakes: false }, ({ vote }) => answers.push(vote));
    await turn();
    const whileHanging = [...answers, node.status().state];
    node.heal();
    await inspect(node, worldOf(), 'r');

    expect(whileHanging).toEqual(['suspended']);
    expect(answers).toEqual(['granted', 'done']);
  });

  it('forgets nothing that waits when it is told to hang once more', async () => {
    const node = new FaultyNode();
    const answers: string[] = [];

    node.hang();
    node.acquire(requestFor(), ({ vote }) => answers.push(vote));
    node.hang();
    node.heal();
    await turn();

    expect(answers).toEqual(['granted']);
  });

  it('frees what was released while it was down as soon as it is healed', async () => {
    const node = new FaultyNode();
    const redlock = await lockOver(node);
    const lock = await redlock.acquire('a');

    node.refuse();
    await lock.release();
    node.heal();
    const next = await redlock.tryAcquire('a');

    expect(next?.isValid).toBe(true);
    await next?.release();
  });

  it('delivers such a release once, and its answer was that the node is down', async () => {
    const inside = new MemoryNode();
    const releases = jest.spyOn(inside, 'release');
    const node = new FaultyNode({ node: inside });
    const answers: string[] = [];

    node.refuse('release');
    node.release({ ...requestFor(), wakes: false }, ({ vote }) => answers.push(vote));
    node.heal();
    node.heal();
    await turn();

    expect(releases).toHaveBeenCalledTimes(1);
    expect(answers).toEqual(['failed']);
  });

  it('delivers no release that was lost, when it is healed', async () => {
    const node = new FaultyNode();
    const request = requestFor();
    await acquire(node, request);

    node.fail('requestLost', 'release');
    node.release({ ...request, wakes: false }, () => undefined);
    node.heal();

    expect(await inspect(node, worldOf(), 'r')).toMatchObject({ ownerId: request.ownerId });
  });

  it('is slow by a short delay, and as one that hangs by one beyond the node timeout', async () => {
    const node = new FaultyNode();
    const redlock = await lockOver(node, { nodeTimeout: 250 });

    node.delay(20);
    const slow = await redlock.acquire('a', 1_000, { wait: 0 });
    await slow.release();
    node.delay(900);
    const error = await rejection(redlock.acquire('a', 1_000, { wait: 0 }));

    expect(error).toMatchObject({ code: 'NO_QUORUM', votes: [{ vote: 'none' }] });
  });

  it('delays requests and answers by the environment, until it is healed', async () => {
    const environment = new SimulatedEnvironment();
    const inside = new MemoryNode({ environment });
    const node = new FaultyNode({ node: inside, environment });
    const [arrivedAt, answeredAt]: [number[], number[]] = [[], []];
    const startedAt = environment.now();
    const inspectInside = inside.inspect.bind(inside);
    inside.inspect = (...question) => {
      arrivedAt.push(environment.now() - startedAt);
      inspectInside(...question);
    };

    const ask = () =>
      node.inspect(worldOf(), 'r', () => answeredAt.push(environment.now() - startedAt));

    node.delay({ request: 20, answer: 30 });
    ask();
    await environment.advance(10);
    node.delay({ request: 5, answer: 30 });
    ask();
    await environment.advance(20);
    node.delay({ request: undefined, answer: 5 });
    ask();
    await environment.advance(30);
    node.delay(40);
    ask();
    await environment.advance(50);
    node.heal();
    ask();
    await environment.settle();

    // On the same connection the second is behind the first, and the third answer behind theirs.
    expect(arrivedAt).toEqual([20, 20, 30, 60, 110]);
    expect(answeredAt).toEqual([50, 50, 50, 100, 110]);
  });

  it.each([
    ['a negative one', -1, /the delay of the answer to be from 0 to 2147483647, got -1/],
    ['no number', NaN, /the delay of the answer .* got NaN/],
    ['one without end', { request: Infinity }, /the delay of the request .* got Infinity/],
    ['a text', '50', /the delay of the answer to be a number, got "50"/],
    ['null', null, /the delay of the answer to be a number, got null/],
  ])('refuses a delay that is %s, and keeps the one it has', async (_what, delay, message) => {
    const environment = new SimulatedEnvironment();
    const node = new FaultyNode({ environment });
    const answered = jest.fn();
    node.delay(30);

    expect(() => node.delay(delay as number)).toThrow(message);
    node.inspect(worldOf(), 'r', answered);
    await environment.advance(29);
    const calls = [answered.mock.calls.length];
    await environment.advance(1);
    calls.push(answered.mock.calls.length);

    expect(calls).toEqual([0, 1]);
  });

  it.each([{ answer: 60_000 }, { request: 60_000 }])(
    'is as quick as ever when it is healed, whatever was on the way: %j',
    async (latency) => {
      const node = new FaultyNode();
      const redlock = await lockOver(node);

      node.delay(latency);
      const error = await rejection(redlock.acquire('a', 1_000, { wait: 0 }));
      node.heal();
      const lock = await redlock.acquire('a', 1_000, { wait: 0 });

      expect(error).toMatchObject({ code: 'NO_QUORUM' });
      expect(lock.isValid).toBe(true);
      await lock.release();
    },
  );

  it('serves in order what hangs, what is on the way and what comes when it is healed', async () => {
    const inside = new MemoryNode();
    const node = new FaultyNode({ node: inside });
    const served: string[] = [];
    const inspectInside = inside.inspect.bind(inside);
    inside.inspect = (world, resource, onAnswer) => {
      served.push(resource);
      inspectInside(world, resource, onAnswer);
    };
    const answered: string[] = [];
    const ask = (name: string) => node.inspect(worldOf(), name, () => answered.push(name));

    node.delay(60_000);
    ask('answered late');
    await turn();
    node.hang();
    ask('hanging');
    node.delay({ request: 60_000 });
    ask('on the way');
    node.heal();
    ask('afterwards');
    const atOnce = [...answered];
    await turn();

    const inOrder = ['answered late', 'hanging', 'on the way', 'afterwards'];
    expect(atOnce).toEqual([]);
    expect(served).toEqual(inOrder);
    expect(answered).toEqual(inOrder);
  });

  it('lets nothing overtake, though timers cut off fractions of a millisecond', async () => {
    const environment = new SimulatedEnvironment();
    const node = new FaultyNode({ environment });
    const request = requestFor({ token: tokenAt(environment.wallClock(), 1) });
    const answers: string[] = [];

    node.delay({ request: 20 });
    node.acquire(request, ({ vote }) => answers.push(vote));
    await environment.advance(5.5);
    node.delay(0);
    node.release({ ...request, wakes: false }, ({ vote }) => answers.push(vote));
    await environment.advance(20);

    expect(answers).toEqual(['granted', 'done']);
  });

  it('lets nothing arrive before its own delay is over', async () => {
    const environment = new SimulatedEnvironment();
    const node = new FaultyNode({ environment });
    const answered: string[] = [];
    const ask = (name: string) => node.inspect(worldOf(), name, () => answered.push(name));

    node.delay({ request: 20 });
    ask('first');
    await environment.advance(10);
    ask('second');
    await environment.advance(19);
    const before = [...answered];
    await environment.advance(1);

    expect(before).toEqual(['first']);
    expect(answered).toEqual(['first', 'second']);
  });

  it('delays what it tells those who listen, as its answers', async () => {
    const environment = new SimulatedEnvironment();
    const inside = new MemoryNode({ environment });
    const node = new FaultyNode({ node: inside, environment });
    const told: string[] = [];
    let listener: WakeListener | undefined;
    inside.listen = (_world, _resource, given) => {
      listener = given;
      return () => undefined;
    };
    node.listen(worldOf(), 'r', {
      onLive: (isLive) => told.push(`live: ${isLive}`),
      onWake: ({ listeners }) => told.push(`released, told ${listeners}`),
    });

    node.delay({ request: 60_000, answer: 30 });
    for (const isLive of [true, false]) listener?.onLive(isLive);
    listener?.onWake({ listeners: 2, overdue: 0 });
    await environment.advance(29);
    const before = [...told];
    await environment.advance(1);

    expect(before).toEqual([]);
    expect(told).toEqual(['live: true', 'live: false', 'released, told 2']);
  });

  it('keeps no process alive for what is on the way', () => {
    const environment = new SimulatedEnvironment();
    const node = new FaultyNode({ environment });

    node.delay({ request: 60_000 });
    node.inspect(worldOf(), 'r', () => undefined);

    expect(environment.pendingTimers).toBe(1);
    expect(environment.processHoldingTimers).toBe(0);
  });

  it('serves one test after another, though fake timers begin at 0 each time', async () => {
    const node = new FaultyNode({ environment: fakeTimersEnvironment() });
    afterTest(async () => void jest.useRealTimers());
    const answers: string[] = [];

    for (const test of [1, 2]) {
      jest.useFakeTimers();
      await jest.advanceTimersByTimeAsync(60_000 / test);
      for (const latency of [0, 10]) {
        node.delay(latency);
        node.inspect(worldOf(), 'r', () => answers.push(`${test}: ${latency} ms`));
        await jest.advanceTimersByTimeAsync(latency);
      }
      jest.useRealTimers();
    }

    expect(answers).toEqual(['1: 0 ms', '1: 10 ms', '2: 0 ms', '2: 10 ms']);
  });
});
