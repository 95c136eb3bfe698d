// When a lock is not handed over to the next call of its process, and when nobody takes it up.
import { describe, expect, it } from '@jest/globals';

import { RedlockClosedError } from '../../lib/core/errors.js';
import { enter, setQueue, ttl } from './hand-over-scene.js';
import { asked, expectInstance, reasonOf, setScene } from './scene.js';
import type { Lock } from '../../lib/core/lock.js';

describe('the nodes are asked', () => {
  const ways: [string, (scene: Awaited<ReturnType<typeof setQueue>>) => Promise<Lock>][] = [
    [
      'where the next call wants another ttl',
      async ({ first, next, queue, until }) => {
        const other = queue(ttl - 1);
        await first.release();
        void (await until(next)).release();
        return until(other);
      },
    ],
    [
      'for a lock by hand: its owner id is a handle, and its ttl means what it says',
      async ({ first, next, redlock, until }) => {
        const byHand = redlock.acquire('r', ttl);
        await first.release();
        void (await until(next)).release();
        return until(byHand);
      },
    ],
    [
      'where it was extended: answers may be on their way',
      async ({ first, next, until }) => {
        await until(first.extend());
        void first.release();
        return until(next);
      },
    ],
    [
      'where the process was busy between the release and the next call',
      async ({ environment, first, next, until }) => {
        void first.release();
        environment.block(ttl / 2);
        return until(next);
      },
    ],
  ];

  it.each(ways)('%s', async (_, way) => {
    const scene = await setQueue();

    const lock = await way(scene);
    await scene.environment.advance(1);

    expect(asked(scene, 'acquire')).toBe(3);
    expect(lock.ownerId).not.toBe(scene.first.ownerId);
    expect(lock.fencingToken).toBeGreaterThan(scene.first.fencingToken);
    expect(await scene.owners()).toEqual([lock.ownerId, lock.ownerId, lock.ownerId]);
  });

  it('where another call still claims some of the resources: its keys were lost', async () => {
    const { nodes, redlock, until } = setScene({ options: { fencing: false } });
    await until(redlock.acquire('a', ttl));
    for (const node of nodes) node.lose();
    const both = await until(enter(redlock, ['a', 'b'], { ttl, wait: 0 }));
    const next = enter(redlock, 'b');

    void both.release();

    expect((await until(next)).resources).toEqual(['b']);
  });

  it.each([
    ['with fencing', true],
    ['without fencing', false],
  ])('behind a lock by hand, whose owner id is a handle: %s', async (_, fencing) => {
    const scene = await setQueue({ fencing });
    const byHand = scene.redlock.acquire('r', ttl);
    const behind = scene.queue();
    await scene.first.release();
    void (await scene.until(scene.next)).release();
    const released = await scene.until(byHand);
    await scene.environment.advance(1);

    await scene.until(released.release());
    const lock = await scene.until(behind);

    expect(lock.ownerId).not.toBe(released.ownerId);
    expect(asked(scene, 'acquire')).toBe(6);
  });

  it('for one token by a call by hand: blocks without need would run ahead of the time', async () => {
    const { redlock, node, until } = setScene();
    const alone = await until(redlock.acquire('r', ttl));
    const byHand = redlock.acquire('r', ttl);
    void enter(redlock, 'r');
    void alone.release();
    const lock = await until(byHand);

    const calls = node(0).calls.filter(({ operation }) => operation === 'acquire');

    const { ownerId, fencingToken: token } = lock;
    expect(calls.at(-1)?.request).toMatchObject({ ownerId, token });
  });

  it('while one of them owes an answer: it might undo what is the next call’s', async () => {
    const scene = setScene();
    const alone = await scene.until(enter(scene.redlock, 'r'));
    const [second, third] = [enter(scene.redlock, 'r'), enter(scene.redlock, 'r')];
    scene.node(2).delay({ answer: 50 });
    void alone.release();
    const first = await scene.until(second);
    scene.node(2).delay({});

    await scene.until(first.release());
    const lock = await scene.until(third);
    await scene.environment.advance(100);

    expect(lock.ownerId).not.toBe(first.ownerId);
    expect(lock.isValid).toBe(true);
    expect(await scene.owners()).toEqual([lock.ownerId, lock.ownerId, lock.ownerId]);
  });

  it.each([
    [9, 0],
    [11, 3],
  ])(
    'where less than nine tenths of the ttl are left: after %i % of it, %i times',
    async (share, times) => {
      const scene = await setQueue({}, 'r', 400);
      // What is valid is less than the ttl by the drift and the guard, and 1 ms has passed.
      scene.environment.block((400 * share) / 100 - 4 - 2 - 1);

      void scene.first.release();
      const lock = await scene.until(scene.next);

      expect(lock.isValid).toBe(true);
      expect(asked(scene, 'acquire')).toBe(times);
    },
  );

  it('for calls that want a part of the resources each', async () => {
    const scene = setScene({ options: { fencing: false } });
    const wide = await scene.until(enter(scene.redlock, ['a', 'b']));
    const narrow = ['a', 'b'].map((resource) => enter(scene.redlock, resource));

    await scene.until(wide.release());
    const locks = await scene.until(Promise.all(narrow));

    const owners = [wide, ...locks].map(({ ownerId }) => ownerId);
    expect(new Set(owners).size).toBe(3);
    expect(await scene.owners('a')).toEqual(Array(3).fill(owners[1]));
    expect(await scene.owners('b')).toEqual(Array(3).fill(owners[2]));
  });
});

describe('a call that was busy when the lock was handed over to it', () => {
  it('gets it when a call that has passed it releases it', async () => {
    const scene = await setQueue({ wait: 60_000 }, ['a', 'b']);
    const { environment, first, next, nodes, redlock, until } = scene;
    await until(redlock.acquire('c', 30_000));
    void first.release();
    environment.block(ttl);
    // By another process, now that the keys have expired.
    for (const node of nodes) node.occupy('a', 300);
    await environment.advance(1);
    // Its caller holds another lock, so it goes before `next`, which finds the key on the nodes.
    const body = (): Promise<void> => new Promise((resolve) => environment.schedule(10, resolve));
    await until(redlock.using(['a', 'b'], { ttl }, body, ['c']));

    expect((await until(next, 100)).isValid).toBe(true);
  });
});

describe('a call that gives up when the lock is handed over', () => {
  /** The call of `given` waits for what `holder` has, until `abortion`. */
  async function setDoubt() {
    const scene = await setQueue();
    const abortion = new AbortController();
    await scene.first.release();
    const holder = await scene.until(scene.next);
    const given = reasonOf(scene.queue(ttl, { signal: abortion.signal }));
    return { ...scene, abortion, holder, given };
  }

  it('gives it to the next, or back', async () => {
    const scene = await setDoubt();
    const { abortion, given, holder } = scene;
    const behind = scene.queue();

    void holder.release();
    abortion.abort(new Error('no longer wanted'));

    expect(expectInstance(await scene.until(given), Error).message).toBe('no longer wanted');
    const lock = await scene.until(behind);
    expect(lock.ownerId).not.toBe(holder.ownerId);
    await scene.until(lock.release());
    await scene.environment.advance(1);
    expect(await scene.owners()).toEqual([null, null, null]);
  });

  it('tells other processes, for nobody else would', async () => {
    const scene = await setDoubt();
    const { abortion, given, holder } = scene;
    const other = scene.otherProcess().acquire('r', ttl, { wait: 60_000 });
    await scene.environment.advance(10);
    const before = scene.environment.now();

    void holder.release();
    abortion.abort();
    await scene.until(given);
    await scene.until(other);

    expect(scene.environment.now() - before).toBeLessThan(3);
  });

  it('leaves no key behind where the process shuts down', async () => {
    const scene = await setQueue();
    const refused = reasonOf(scene.next);

    void scene.first.release();
    await scene.until(scene.redlock.close());
    await scene.environment.advance(1);

    expect(await refused).toBeInstanceOf(RedlockClosedError);
    expect(await scene.owners()).toEqual([null, null, null]);
    expect(scene.redlock.status()).toMatchObject({ held: 0, waiting: 0 });
  });
});
