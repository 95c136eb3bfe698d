// A lock goes from call to call of one process while the nodes keep it. PROTOCOL.md section 10.
import { describe, expect, it } from '@jest/globals';

import { LockLostError, RedlockClosedError } from '../../lib/core/errors.js';
import { TOKENS_PER_BLOCK } from '../../lib/core/fencing.js';
import { expectInstance, reasonOf, setScene } from './scene.js';
import type { Lock } from '../../lib/core/lock.js';
import type { AcquireOptions, RedlockOptions, UsingOptions } from '../../lib/core/options.js';
import type { Redlock } from '../../lib/core/redlock.js';
import type { Scene } from './scene.js';

const ttl = 10_000;

/** Who hand the lock over to each other: the first of them got it by the first of 16 hand-overs. */
const HOLDERS = 16;

/** The call of `first` holds `resource`, and that of `next` waits for it, as those that `queue`. */
async function setQueue(
  options: RedlockOptions = {},
  resource: string | string[] = 'r',
  length = ttl,
) {
  const scene = setScene({ options });
  for (const node of scene.nodes) node.delay({ request: 0.2, answer: 0.2 });
  const { redlock, until } = scene;
  const queue = (ownLength = length, given: AcquireOptions = {}): Promise<Lock> =>
    enter(redlock, resource, { ttl: ownLength, ...given });
  // What is acquired while nobody is behind has no block of tokens: the second is the first that has.
  const alone = await until(queue());
  const second = queue();
  const third = queue();
  await until(alone.release());
  const first = await until(second);
  // All nodes have answered.
  await scene.environment.advance(1);
  for (const node of scene.nodes) node.calls.length = 0;
  return { ...scene, first, next: third, queue };
}

/** A call with a body, which ends when its lock is released; gives that. */
function enter(
  redlock: Redlock,
  resource: string | string[],
  options: UsingOptions = { ttl },
): Promise<Lock> {
  return new Promise((resolve, reject) => {
    const body = (lock: Lock): Promise<void> => {
      resolve(lock);
      return new Promise(() => undefined);
    };
    redlock.using(resource, options, body).catch(reject);
  });
}

/** How often all nodes were asked. */
const asked = ({ nodes }: Pick<Scene, 'nodes'>, operation: 'acquire' | 'release'): number =>
  nodes.reduce((sum, node) => sum + node.count(operation), 0);

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
