import { AsyncLocalStorage } from 'node:async_hooks';

import { describe, expect, it } from '@jest/globals';

import { Redlock } from '../../lib/core/redlock.js';
import { MemoryNode } from '../../lib/nodes/memory-node.js';
import { afterTest } from '../support/after-test.js';
import { untilCollected } from '../support/collect-garbage.js';
import { deferred, setScene } from './scene.js';
import type { Lock } from '../../lib/core/lock.js';

const ttl = 10_000;

describe('holdAtLeast', () => {
  const options = { ttl: 2_000, holdAtLeast: 60_000 };

  it('keeps the resource taken although the body is done', async () => {
    const { environment, redlock, otherProcess, owners, until } = setScene();

    const result = await until(
      redlock.using('r', options, () => 'done at once'),
      1,
    );
    await environment.advance(59_000);
    const other = await until(otherProcess().tryAcquire('r', ttl));
    await environment.advance(1_100);

    expect(result).toBe('done at once');
    expect(other).toBeNull();
    expect(await owners()).toEqual([null, null, null]);
    expect(environment.pendingTimers).toBe(0);
  });

  it('lets replicas that each count an interval from their start run once in each', async () => {
    const { environment, otherProcess } = setScene();
    const runs: number[] = [];
    const replicas = [0, 3_000, 6_000].map((offset) => ({ redlock: otherProcess(), offset }));
    const fire = (redlock: Redlock): void => {
      const run = (): unknown => runs.push(Math.round(environment.now() / 1_000));
      redlock.using('r', { wait: 0, holdAtLeast: 9_500 }, run).catch(() => undefined);
    };

    for (let second = 0; second < 60; second += 1) {
      const due = replicas.filter(({ offset }) => (second * 1_000 - offset) % 10_000 === 0);
      for (const { redlock } of due) fire(redlock);
      await environment.advance(1_000);
    }

    const [first = 0] = runs;
    expect(runs.map((second) => second - first)).toEqual([0, 10, 20, 30, 40, 50]);
  });

  it('has the lock extended also where the watchdog is off while the body runs', async () => {
    const { environment, redlock, owners, until } = setScene();
    const body = deferred();
    const call = redlock.using('r', { ...options, watchdog: false }, () => body.promise);
    await environment.advance(1_000);
    body.resolve();
    await until(call);

    await environment.advance(50_000);

    expect(await owners()).not.toContain(null);
  });

  it('leaves nothing in memory when it is over', async () => {
    const { environment, otherProcess, until } = setScene();
    const redlock = otherProcess();
    const come = (): Promise<WeakRef<Lock>> =>
      until(redlock.using('r', { ttl, holdAtLeast: 50 }, (lock) => new WeakRef(lock)));

    const left = await come();
    await environment.advance(100);

    await untilCollected(left);
  });

  describe('keeps nothing in memory of the call that has ended:', () => {
    const storage = new AsyncLocalStorage<object>();

    it.each<[string, (redlock: Redlock) => Promise<object>]>([
      [
        'its async context',
        async (redlock) => {
          const call = {};
          await storage.run(call, () => redlock.using('r', options, () => 1));
          return call;
        },
      ],
      [
        'the async context in which it read the signal of its lock',
        async (redlock) => {
          const call = {};
          const body = (lock: Lock): boolean => storage.run(call, () => lock.signal.aborted);
          await redlock.using('r', options, body);
          return call;
        },
      ],
      [
        'the signal that it gave',
        async (redlock) => {
          const { signal } = new AbortController();
          await redlock.using('r', { ...options, signal }, () => 1);
          return signal;
        },
      ],
    ])('%s', async (_what, come) => {
      const redlock = new Redlock([new MemoryNode()]);
      afterTest(() => redlock.close());
      const left = async (): Promise<WeakRef<object>> => new WeakRef(await come(redlock));

      await untilCollected(await left());

      expect(redlock.status().held).toBe(1);
    });
  });

  it('keeps no process alive', async () => {
    const { environment, redlock, until } = setScene();

    await until(redlock.using('r', options, () => 1));

    expect(environment.pendingTimers).toBeGreaterThan(0);
    expect(environment.processHoldingTimers).toBe(0);
  });

  it('that is over when the body ends releases at once', async () => {
    const { environment, redlock, owners, until } = setScene();
    const body = deferred();
    const call = redlock.using('r', { ttl, holdAtLeast: 1_000 }, () => body.promise);
    await environment.advance(1_001);

    body.resolve();
    await until(call);

    expect(await owners()).toEqual([null, null, null]);
  });

  it('applies to a body that failed too', async () => {
    const { redlock, owners, rejection } = setScene();

    await rejection(redlock.using('r', options, () => Promise.reject(new Error('failed'))));

    expect(await owners()).not.toContain(null);
  });

  it('does not keep a lock that was lost', async () => {
    const { environment, redlock, rejection, owners } = setScene();

    await rejection(
      redlock.using('r', options, () => {
        environment.block(2_500);
      }),
    );

    expect(await owners()).toEqual([null, null, null]);
    expect(environment.pendingTimers).toBe(0);
  });

  it('counts as held, and wakes the next in the process when it is over', async () => {
    const { environment, redlock, until } = setScene();
    await until(redlock.using('r', options, () => 1));
    const retryDelay = { min: 50_000, max: 50_000 };
    const waiting = redlock.acquire('r', ttl, { wait: 300_000, retryDelay });
    const heldMeanwhile = redlock.status().held;

    await environment.advance(60_001);

    expect(heldMeanwhile).toBe(1);
    expect((await until(waiting, 1)).isValid).toBe(true);
  });

  it('whose keys are lost meanwhile is told as lost, once', async () => {
    const { environment, redlock, nodes, observer, until } = setScene();
    await until(redlock.using('r', options, () => 1));
    for (const node of nodes) node.restart();

    await environment.advance(61_000);

    expect(observer.lost).toHaveBeenCalledTimes(1);
    expect(redlock.status().held).toBe(0);
    expect(environment.pendingTimers).toBe(0);
  });
});
