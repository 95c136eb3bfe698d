import { describe, expect, it } from '@jest/globals';

import { NoQuorumError, RedlockClosedError } from '../../lib/core/errors.js';
import { asked, setScene, type Scene } from './scene.js';
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

  it('are no place to hand a lock over to', async () => {
    const scene = setUp();
    const ends: (() => void)[] = [];
    const holding = scene.redlock.using('r', {}, () => new Promise<void>((end) => ends.push(end)));
    await scene.environment.advance(3);
    const many = acquireMany(scene, LIMIT);
    let runs = 0;
    const next = scene.redlock.using('r', { wait: 0 }, () => {
      runs += 1;
    });

    ends[0]?.();
    await scene.until(Promise.all([holding, next, ...many]));

    expect(runs).toBe(1);
    expect(await scene.owners('r')).toEqual([null, null, null]);
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
