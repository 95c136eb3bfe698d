import { describe, expect, it, jest } from '@jest/globals';

import { getEventListeners } from 'node:events';

import { reasonOf, setScene } from './scene.js';
import type { Lock } from '../../lib/core/lock.js';

const ttl = 10_000;

describe("the caller's abort signal", () => {
  const reason = new Error('the client went away');

  it('that is aborted already rejects at once, and no node is asked', async () => {
    const { redlock, node, observer, rejection } = setScene();

    const error = await rejection(redlock.acquire('r', ttl, { signal: AbortSignal.abort(reason) }));

    expect(error).toBe(reason);
    expect(node(0).calls).toEqual([]);
    expect(observer.refused).toHaveBeenCalledWith(['r'], reason, 0, 0, true);
  });

  it('is listened to no longer when the call is refused', async () => {
    const { redlock, otherProcess, rejection, until } = setScene();
    await until(otherProcess().acquire('r', ttl));
    const { signal } = new AbortController();
    const removeListener = jest.spyOn(signal, 'removeEventListener');

    await rejection(redlock.acquire('r', ttl, { signal, wait: 0 }));

    expect(removeListener).toHaveBeenCalledTimes(1);
  });

  it('is listened to once, however many calls wait with it, and ends them all', async () => {
    const { redlock, otherProcess, environment, until } = setScene();
    await until(otherProcess().acquire('r', ttl));
    const controller = new AbortController();
    const { signal } = controller;
    const calls = Array.from({ length: 11 }, () => reasonOf(redlock.acquire('r', ttl, { signal })));
    await environment.advance(10);

    const while11Wait = getEventListeners(signal, 'abort').length;
    controller.abort(reason);

    expect(new Set(await until(Promise.all(calls), 1))).toEqual(new Set([reason]));
    // More than ten are taken for a leak by Node 20.
    expect(while11Wait).toBe(1);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('ends the wait in the queue', async () => {
    const { redlock, otherProcess, environment, until } = setScene();
    await until(otherProcess().acquire('r', ttl));
    const first = reasonOf(redlock.acquire('r', ttl, { wait: 1_000 }));
    const controller = new AbortController();
    const queued = reasonOf(redlock.acquire('r', ttl, { signal: controller.signal }));
    await environment.advance(10);

    controller.abort(reason);

    expect(await until(queued, 1)).toBe(reason);
    expect(redlock.status().waiting).toBe(1);
    await until(first);
  });

  it('ends the pause between two attempts', async () => {
    const { redlock, otherProcess, environment, until } = setScene();
    await until(otherProcess().acquire('r', ttl));
    const controller = new AbortController();
    const retryDelay = { min: 1_000, max: 1_000 };
    const call = reasonOf(redlock.acquire('r', ttl, { signal: controller.signal, retryDelay }));
    await environment.advance(10);

    controller.abort(reason);

    expect(await until(call, 1)).toBe(reason);
    expect(redlock.status().waiting).toBe(0);
  });

  it('ends an attempt under way and leaves no key', async () => {
    const { redlock, environment, nodes, owners, until } = setScene();
    for (const node of nodes) node.delay({ request: 5, answer: 5 });
    const controller = new AbortController();
    const call = reasonOf(redlock.acquire('r', ttl, { signal: controller.signal }));
    await environment.advance(7);

    controller.abort(reason);

    expect(await until(call, 1)).toBe(reason);
    await environment.advance(20);
    expect(await owners()).toEqual([null, null, null]);
    expect(environment.pendingTimers).toBe(0);
  });

  // What is granted without a queue and at once is told in the same step.
  it.each([
    ['first', 'the own process'],
    ['second', 'another process'],
  ])('that comes just after the quorum of a %s attempt gives the lock back', async (_, holder) => {
    const { redlock, environment, node, otherProcess, owners, rejection, until } = setScene({
      nodes: 1,
    });
    const controller = new AbortController();
    const process = holder === 'the own process' ? redlock : otherProcess();
    const before = await until(process.acquire('r', ttl));
    const waiting = rejection(redlock.acquire('r', ttl, { signal: controller.signal }));
    await environment.advance(1);
    node(0).onServed = (operation) => {
      if (operation !== 'acquire') return;
      // Two steps later: the answer was counted, and nobody was told yet.
      queueMicrotask(() => queueMicrotask(() => controller.abort(reason)));
    };

    void before.release();
    const error = await waiting;

    expect(error).toBe(reason);
    // For so long the other process lets others go first.
    await environment.advance(100);
    expect(await owners()).toEqual([null]);
    expect(node(0).calls.at(-1)?.request).toMatchObject({ wakes: true });
    expect(environment.pendingTimers).toBe(0);
  });

  it('either rejects with nothing locked or comes too late, at whatever moment', async () => {
    const wrong: string[] = [];
    for (let steps = 0; steps < 20; steps += 1) {
      const { redlock, environment, node, owners } = setScene({ nodes: 1 });
      const controller = new AbortController();
      const abortAfter = (left: number): void => {
        if (left === 0) controller.abort(reason);
        else queueMicrotask(() => abortAfter(left - 1));
      };
      node(0).onServed = (operation) => {
        if (operation === 'acquire') abortAfter(steps);
      };
      const outcome: { lock?: Lock; error?: unknown } = {};
      redlock.acquire('r', ttl, { signal: controller.signal }).then(
        (lock) => (outcome.lock = lock),
        (error: unknown) => (outcome.error = error),
      );
      await environment.advance(1);
      const [owner] = await owners();
      if (outcome.lock === undefined && (outcome.error !== reason || owner !== null)) {
        wrong.push(`${steps} steps: rejected, owner ${owner}`);
      }
      if (outcome.lock !== undefined && owner !== outcome.lock.ownerId) wrong.push(`${steps}`);
    }

    expect(wrong).toEqual([]);
  });

  it.each(
    // As many as may make their first attempts at a time: then others wait for room.
    [0, 2_048].flatMap((crowd) => [0, 1, 2, 3, 4, 5].map((steps) => [steps, crowd] as const)),
  )(
    'that comes %i steps after its turn, among %i calls, leaves it to others and waits for no node',
    async (steps, crowd) => {
      const { redlock, environment, nodes, otherProcess, until, rejection } = setScene();
      const controller = new AbortController();
      const lock = await until(redlock.acquire('r', ttl));
      const next = rejection(redlock.acquire('r', ttl, { signal: controller.signal }));
      // Too patient to find out by itself.
      const other = otherProcess({ retryDelay: { min: 5_000, max: 6_000 } });
      const others = other.acquire('r', ttl, { wait: 20_000 });
      // No longer: after 50 ms the lock is left to others at once.
      await environment.advance(20);
      for (const node of nodes) node.delay({ answer: 20 });
      const calls = Array.from({ length: crowd }, (_, index) => redlock.acquire(`r${index}`, ttl));
      const releasedAt = environment.now();

      void lock.release();
      for (let step = 0; step < steps; step += 1) await Promise.resolve();
      controller.abort(reason);

      expect(await next).toBe(reason);
      expect(environment.now() - releasedAt).toBeLessThan(20);
      await until(others);
      expect(environment.now() - releasedAt).toBeLessThan(200);
      await until(Promise.all(calls));
    },
  );

  it('does not touch a lock that was granted', async () => {
    const { redlock, environment, until } = setScene();
    const controller = new AbortController();
    const removeListener = jest.spyOn(controller.signal, 'removeEventListener');
    const lock = await until(redlock.acquire('r', ttl, { signal: controller.signal }));

    controller.abort(reason);
    await environment.advance(100);

    expect(lock.isValid).toBe(true);
    expect(removeListener).toHaveBeenCalledTimes(1);
  });
});
