import { describe, expect, it, jest } from '@jest/globals';

import { NoQuorumError, RedlockClosedError } from '../../lib/core/errors.js';
import { FirstAttempts } from '../../lib/core/first-attempts.js';
import { Waiter } from '../../lib/core/waiter.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { growth, LINEAR } from '../support/growth.js';
import { asked, setScene, type Scene } from './scene.js';
import type { OnSettled } from '../../lib/core/attempt.js';
import type { AcquireOptions } from '../../lib/core/options.js';
import type { Lock } from '../../lib/core/lock.js';

const ttl = 10_000;
const LIMIT = 2_048;

function setUp(): Scene {
  const scene = setScene();
  slowDown(scene);
  return scene;
}

/** Makes the nodes answer after 2 ms. */
function slowDown({ nodes }: Scene): void {
  for (const node of nodes) node.delay({ request: 1, answer: 1 });
}

function acquireMany(
  { redlock }: Scene,
  count: number,
  options: AcquireOptions = {},
): Promise<Lock>[] {
  return Array.from({ length: count }, (_, index) => redlock.acquire(`r${index}`, ttl, options));
}

describe('first attempts of one process', () => {
  it('are 2,048 at a time, in the order of the calls, whatever their `wait`', async () => {
    const scene = setUp();
    const granted: number[] = [];

    const locks = acquireMany(scene, 2 * LIMIT + 100, { wait: 0 });
    locks.forEach((lock, index) => void lock.then(() => granted.push(index)));
    await scene.environment.settle();
    const askedAtOnce = asked(scene, 'acquire');
    await scene.until(Promise.all(locks));

    expect(askedAtOnce).toBe(3 * LIMIT);
    expect(asked(scene, 'acquire')).toBe(3 * locks.length);
    expect(granted).toEqual(locks.map((_, index) => index));
  });

  it('are as many again once those before have settled, granted or not', async () => {
    const scene = setUp();
    for (const node of scene.nodes) node.refuse('acquire');
    const errors = acquireMany(scene, 2 * LIMIT, { wait: 0 }).map((call) => scene.rejection(call));
    for (const error of await scene.until(Promise.all(errors))) {
      expect(error).toBeInstanceOf(NoQuorumError);
    }
    for (const node of scene.nodes) node.heal();
    slowDown(scene);
    const before = asked(scene, 'acquire');

    const locks = acquireMany(scene, 2 * LIMIT);
    await scene.environment.settle();
    const askedAtOnce = asked(scene, 'acquire') - before;
    await scene.until(Promise.all(locks));

    expect(askedAtOnce).toBe(3 * LIMIT);
  });

  it('give their room back where the stack is used up before they have asked a node', async () => {
    const { environment, redlock, rejection, until } = setUp();
    const many = Array.from({ length: 1_000 }, (_, index) => `r${index}`);
    const overflow = new RangeError('Maximum call stack size exceeded');
    const clock = jest.spyOn(environment, 'wallClock');
    for (let times = 0; times < 3; times += 1) {
      clock.mockImplementationOnce(() => {
        throw overflow;
      });
      expect(await rejection(redlock.acquire(many, ttl))).toBe(overflow);
    }

    const lock = await until(redlock.acquire('r', ttl, { wait: 0 }), 100);

    expect(lock.isValid).toBe(true);
  });

  it('are none more where those under way want 2,048 resources together', async () => {
    const scene = setUp();
    const manyOf = (call: string): string[] =>
      Array.from({ length: 1_000 }, (_, index) => `${call}:${index}`);
    const granted: string[] = [];

    const calls = ['a', 'b', 'c', 'd', 'e'].map((call) => [call, manyOf(call)] as const);
    const locks = [...calls, ['f', 'f'] as const].map(([call, resources]) =>
      scene.redlock.acquire(resources, ttl, { wait: 0 }).then(() => granted.push(call)),
    );
    await scene.environment.settle();
    const askedAtOnce = asked(scene, 'acquire');
    await scene.until(Promise.all(locks));

    expect(askedAtOnce).toBe(3 * 3);
    expect(granted).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
  });

  it('that are aborted before it is their turn ask no node', async () => {
    const scene = setUp();
    const controller = new AbortController();
    const reason = new Error('no longer wanted');
    const before = acquireMany(scene, LIMIT);
    const aborted = scene.rejection(
      scene.redlock.acquire('aborted', ttl, { signal: controller.signal }),
    );
    const after = scene.redlock.acquire('after', ttl);

    controller.abort(reason);

    expect(await aborted).toBe(reason);
    await scene.until(Promise.all([...before, after]));
    expect(asked(scene, 'acquire')).toBe(3 * (LIMIT + 1));
    expect(await scene.owners('aborted')).toEqual([null, null, null]);
    // It has left its queue.
    await scene.until(scene.redlock.acquire('aborted', ttl, { wait: 0 }));
  });

  it('are as many again where all that were still to come were aborted meanwhile', async () => {
    const scene = setUp();
    const { environment, observer, until } = scene;
    const controller = new AbortController();
    const { signal } = controller;
    const before = acquireMany(scene, LIMIT);
    const aborted = [1, 2].map((name) => scene.redlock.acquire(`aborted:${name}`, ttl, { signal }));
    const errors = aborted.map((call) => scene.rejection(call));
    // Called when an attempt has settled, before another is begun in its place.
    observer.roundDecided.mockImplementationOnce(() => controller.abort());
    await until(Promise.all([...before, ...errors]));
    const askedBefore = asked(scene, 'acquire');

    const locks = Array.from({ length: LIMIT + 1 }, (_, index) =>
      scene.redlock.acquire(`again:${index}`, ttl),
    );
    await environment.settle();

    expect(asked(scene, 'acquire') - askedBefore).toBe(3 * LIMIT);
    await until(Promise.all(locks));
  });

  it('take no longer each, however many are still to come', async () => {
    const prepare = (count: number) => {
      const attempts = new FirstAttempts();
      const environment = new SimulatedEnvironment();
      const underWay: OnSettled[] = [];
      let settled = 0;
      for (let index = 0; index < count; index += 1) {
        const attempt = (onSettled: OnSettled): void => void underWay.push(onSettled);
        const waiter = new Waiter(environment, ['r'], 1_000, false);
        attempts.start(waiter, attempt, () => (settled += 1));
      }
      return async () => {
        for (let settle = underWay.pop(); settle !== undefined; settle = underWay.pop()) {
          settle({ verdict: 'taken', answers: [], tieBreaker: null });
          await Promise.resolve();
        }
        expect(settled).toBe(count);
      };
    };

    expect(await growth(prepare, 10_000)).toBeLessThan(LINEAR);
  });

  it('that are still to come go before a call that comes when there is room again', async () => {
    const attempts = new FirstAttempts();
    const begun: string[] = [];
    const underWay: OnSettled[] = [];
    const start = (name: string, size = 1): void => {
      const waiter = new Waiter(new SimulatedEnvironment(), Array(size).fill(name), 1_000, false);
      const attempt = (onSettled: OnSettled): void => {
        begun.push(name);
        underWay.push(onSettled);
      };
      attempts.start(waiter, attempt, () => undefined);
    };
    start('under way', LIMIT);
    start('to come');

    underWay[0]?.({ verdict: 'taken', answers: [], tieBreaker: null });
    start('late');
    await Promise.resolve();

    expect(begun).toEqual(['under way', 'to come', 'late']);
  });

  it('that are still to come end with a shutdown', async () => {
    const scene = setUp();
    const calls = acquireMany(scene, LIMIT + 2);
    for (const call of calls) call.catch(() => undefined);

    await scene.until(scene.redlock.close());

    for (const call of calls.slice(LIMIT)) {
      await expect(call).rejects.toBeInstanceOf(RedlockClosedError);
    }
    expect(asked(scene, 'acquire')).toBe(3 * LIMIT);
  });

  it('of calls to which a lock is left are made at once', async () => {
    const scene = setUp();
    const lock = await scene.until(scene.redlock.acquire('r', ttl));
    const next = scene.redlock.acquire('r', ttl);
    const many = acquireMany(scene, 3 * LIMIT);

    const releasedAt = scene.environment.now();
    void lock.release();
    await scene.until(next);

    expect(scene.environment.now() - releasedAt).toBeLessThan(4);
    await scene.until(Promise.all(many));
  });

  it('hold up neither the extension nor the release of locks', async () => {
    const scene = setUp();
    const lock = await scene.until(scene.redlock.acquire('r', ttl));
    const many = acquireMany(scene, 3 * LIMIT);

    const startedAt = scene.environment.now();
    await scene.until(lock.extend(ttl));
    await scene.until(lock.release());

    expect(scene.environment.now() - startedAt).toBeLessThan(5);
    await scene.until(Promise.all(many));
  });
});
