// A lock goes from call to call of one process while the nodes keep it. PROTOCOL.md section 10.
import { describe, expect, it } from '@jest/globals';

import { LockLostError } from '../../lib/core/errors.js';
import { TOKENS_PER_BLOCK } from '../../lib/core/fencing.js';
import { enter, setQueue, ttl } from './hand-over-scene.js';
import { asked, farProcess, reasonOf, setScene } from './scene.js';

/** Who hand the lock over to each other: the first of them got it by the first of 16 hand-overs. */
const HOLDERS = 16;

describe('a lock that is handed over', () => {
  it('costs the nodes nothing and the next call no time', async () => {
    const scene = await setQueue();
    const before = scene.environment.now();

    await scene.until(scene.first.release());
    const lock = await scene.until(scene.next);

    expect(lock.isValid).toBe(true);
    expect(scene.first.isValid).toBe(false);
    expect(scene.environment.now()).toBe(before);
    expect(asked(scene, 'acquire') + asked(scene, 'release')).toBe(0);
  });

  it('is so too where the nodes take 60 ms to answer: what it takes to get it is not counted', async () => {
    const { environment, nodes, node, redlock, until } = setScene();
    for (const each of nodes) each.delay(60);
    const body = (): Promise<void> => new Promise((resolve) => environment.schedule(1, resolve));

    await until(Promise.all(Array.from({ length: 12 }, () => redlock.using('r', {}, body))));

    // Of the first, which nobody was behind, of the second, and of the third, which has a block.
    expect(node(0).count('acquire')).toBe(3);
  });

  it('has the same keys, the next token, and is told of like any other', async () => {
    const scene = await setQueue();
    scene.observer.acquired.mockClear();
    scene.observer.released.mockClear();

    await scene.environment.advance(3);
    await scene.first.release();
    const lock = await scene.until(scene.next);

    expect(lock.ownerId).toBe(scene.first.ownerId);
    expect(await scene.owners()).toEqual([lock.ownerId, lock.ownerId, lock.ownerId]);
    expect(lock.fencingToken).toBe(scene.first.fencingToken + 1);
    expect(scene.observer.acquired.mock.calls).toEqual([[lock, expect.any(Number), 0]]);
    expect(scene.observer.released.mock.calls).toEqual([[scene.first, expect.any(Number)]]);
  });

  it("stays the next call's when the last holder releases it once more as it is told", async () => {
    const scene = await setQueue();
    scene.observer.released.mockImplementation((lock) => void lock.release());

    await scene.first.release();
    const lock = await scene.until(scene.next);
    await scene.environment.advance(1);

    expect(lock.isValid).toBe(true);
    expect(await scene.owners()).toEqual([lock.ownerId, lock.ownerId, lock.ownerId]);
  });

  it('is valid for no longer than the nodes keep it', async () => {
    const scene = await setQueue();
    await scene.environment.advance(40);
    const remaining = scene.first.remaining;

    await scene.first.release();
    const lock = await scene.until(scene.next);

    expect(lock.remaining).toBe(remaining);
    scene.environment.block(remaining);
    expect(lock.isValid).toBe(false);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
  });

  it('is extended in time, and held by its new holder from then on', async () => {
    const scene = await setQueue({ ttl: 1_000 });
    await scene.first.release();
    const held = await scene.until(scene.next);
    const kept = scene.redlock.using('r', { ttl, maxHold: 20_000 }, async (lock) => {
      await new Promise<void>((resolve) => scene.environment.schedule(15_000, resolve));
      return lock.isValid;
    });

    await scene.until(held.release());

    await expect(scene.until(kept)).resolves.toBe(true);
    expect(scene.observer.released.mock.calls.at(-1)?.[1]).toBeCloseTo(15_000, -1);
  });

  it('is held by its new holder from the hand-over on, however old it is', async () => {
    const { environment, first, next, observer, until } = await setQueue();
    await environment.advance(40);
    await first.release();
    const lock = await until(next);

    await environment.advance(100);
    await until(lock.release());

    expect(observer.released.mock.calls.at(-1)).toEqual([lock, expect.closeTo(100, -1)]);
  });

  it('goes through a block of tokens in order; then other processes are told', async () => {
    const scene = await setQueue();
    const locks = [scene.first];
    let next = scene.next;
    while (locks.length < HOLDERS) {
      const following = scene.queue();
      void locks.at(-1)?.release();
      locks.push(await scene.until(next));
      next = following;
    }
    const askedMeanwhile = asked(scene, 'acquire');

    void locks.at(-1)?.release();
    const afterOthers = await scene.until(next);

    const steps = locks.map(({ fencingToken }) => fencingToken - scene.first.fencingToken);
    expect(steps).toEqual(Array.from({ length: HOLDERS }, (_, place) => place));
    expect(new Set(locks.map(({ ownerId }) => ownerId)).size).toBe(1);
    expect(askedMeanwhile).toBe(0);
    expect(afterOthers.fencingToken).toBeGreaterThanOrEqual(
      scene.first.fencingToken + TOKENS_PER_BLOCK,
    );
    expect(asked(scene, 'acquire')).toBe(3);
  });

  it('leaves tokens behind that are below those of every later lock', async () => {
    const scene = await setQueue();
    await scene.first.release();
    const last = await scene.until(scene.next);
    // Nobody releases it: its keys expire, and with them nobody tells of the block.
    scene.environment.block(ttl);
    const slow = scene.otherProcess();

    const lock = await scene.until(slow.acquire('r', ttl));

    expect(lock.fencingToken).toBeGreaterThan(last.fencingToken);
    expect(lock.fencingToken).toBeGreaterThan(scene.first.fencingToken + TOKENS_PER_BLOCK - 1);
  });

  it('has token 0 without fencing, from the first call that waits on', async () => {
    const scene = await setQueue({ fencing: false });

    await scene.first.release();
    const lock = await scene.until(scene.next);

    expect([scene.first.fencingToken, lock.fencingToken]).toEqual([0, 0]);
    expect(asked(scene, 'acquire')).toBe(0);
  });

  it('is deleted by its last holder, on all nodes', async () => {
    const scene = await setQueue();
    await scene.first.release();
    const lock = await scene.until(scene.next);

    await scene.until(lock.release());
    await scene.environment.advance(1);

    expect(asked(scene, 'release')).toBe(3);
    expect(await scene.owners()).toEqual([null, null, null]);
  });

  it('is no more its former holder’s, whatever that one does', async () => {
    const scene = await setQueue();
    await scene.first.release();
    const lock = await scene.until(scene.next);

    await expect(scene.first.extend()).rejects.toThrow(LockLostError);
    await scene.first.release();
    await scene.environment.advance(5);

    expect(lock.isValid).toBe(true);
    expect(await scene.owners()).toEqual([lock.ownerId, lock.ownerId, lock.ownerId]);
  });

  it('may be of several resources, where the next call wants all of them', async () => {
    const scene = await setQueue({}, ['a', 'b']);

    await scene.first.release();
    const lock = await scene.until(scene.next);

    expect(lock.resources).toEqual(['a', 'b']);
    expect(asked(scene, 'acquire')).toBe(0);
  });

  it('is taken up although others are told meanwhile that it is free', async () => {
    const scene = setScene();
    const { environment, redlock, until } = scene;
    const lost = await until(redlock.acquire('r', 1_000));
    for (const index of [1, 2]) scene.node(index).refuse();
    await reasonOf(until(lost.extend(30_000)));
    for (const index of [1, 2]) scene.node(index).heal();
    await environment.advance(1_000);
    // The first node still has the keys of a lock that is lost. Its release is told to the other.
    const alone = await until(redlock.acquire('r', ttl));
    const [second, next] = [enter(redlock, 'r'), enter(redlock, 'r')];
    void alone.release();
    const holder = await until(second);
    const other = scene.otherProcess().acquire('r', ttl, { wait: 60_000 });
    await environment.advance(10);

    void lost.release();
    void holder.release();
    const before = environment.now();
    const lock = await until(next);

    expect(lock.ownerId).toBe(holder.ownerId);
    expect(environment.now()).toBe(before);
    await until(lock.release());
    await until(other);
  });
});

describe('an attempt in the tick of a release', () => {
  it.each([
    ['what was released', ['r']],
    ['another resource besides', ['r', 's']],
  ])('for %s tells other processes where the nodes answer too late', async (_, wanted) => {
    const scene = setScene();
    const { environment, redlock, until } = scene;
    const { redlock: slow, ways } = farProcess(scene, () => 0);
    const rare = { wait: 60_000, retryDelay: { min: 5_000, max: 5_000 } };
    const first = await until(slow.acquire('r', ttl));
    void slow.acquire(wanted, ttl, rare);
    const other = redlock.acquire('r', ttl, rare);
    await environment.advance(5);
    for (const each of ways.slice(1)) each.delay({ request: 400, answer: 400 });
    const before = environment.now();

    void first.release();
    await until(other);

    // The node timeout of 500 ms ends the release too: a second attempt follows at once.
    expect(environment.now() - before).toBeLessThan(1_500);
  });
});
