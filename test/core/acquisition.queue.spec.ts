import { describe, expect, it, jest } from '@jest/globals';

import { getEventListeners } from 'node:events';

import { LockTakenError } from '../../lib/core/errors.js';
import { expectInstance, reasonOf, setScene } from './scene.js';

const ttl = 10_000;

describe('several resources', () => {
  it('are locked all or none', async () => {
    const { redlock, otherProcess, nodes, rejection, until } = setScene();
    await until(otherProcess().acquire('b', ttl));

    const error = await rejection(redlock.acquire(['a', 'b', 'c'], ttl, { wait: 0 }));

    expect(expectInstance(error, LockTakenError).resources).toEqual(['a', 'b', 'c']);
    for (const node of nodes) {
      expect(await node.ownerOf('a')).toBeNull();
      expect(await node.ownerOf('c')).toBeNull();
    }
  });

  it('are released together', async () => {
    const { redlock, owners, until } = setScene();
    const lock = await until(redlock.acquire(['a', 'b'], ttl));

    await until(lock.release());

    expect([...(await owners('a')), ...(await owners('b'))]).toEqual(Array(6).fill(null));
  });

  it('that overlap do not deadlock, in one process or in two', async () => {
    const { redlock, otherProcess, environment, until } = setScene();
    const processes = [redlock, otherProcess()];
    const wishes = [
      ['a', 'b'],
      ['b', 'c'],
      ['c', 'a'],
      ['c', 'b', 'a'],
    ];
    let running = new Set<string>();
    let overlaps = 0;

    const calls = processes.flatMap((process) =>
      wishes.map((wish) =>
        process.using(wish, { ttl, wait: 60_000 }, async () => {
          if (wish.some((resource) => running.has(resource))) overlaps += 1;
          running = new Set([...running, ...wish]);
          await environment.settle();
          running = new Set([...running].filter((resource) => !wish.includes(resource)));
        }),
      ),
    );
    await until(Promise.all(calls));

    expect(overlaps).toBe(0);
  });

  it('that wait for one of them keep later calls of the process from all of them', async () => {
    const { redlock, otherProcess, environment, rejection, until } = setScene();
    await until(otherProcess().acquire('a', ttl));
    const both = reasonOf(redlock.acquire(['a', 'b'], ttl, { wait: 1_000 }));
    await environment.advance(100);

    const later = await rejection(redlock.acquire('b', ttl, { wait: 0 }));

    expect(expectInstance(later, LockTakenError).message).toContain('other calls of this process');
    expectInstance(await until(both), LockTakenError);
    expect((await until(redlock.acquire('b', ttl, { wait: 0 }))).isValid).toBe(true);
  });
});

describe('a resource released while the next call of its process wants another one too', () => {
  it('is told to other processes', async () => {
    const { redlock, environment, otherProcess, until } = setScene();
    await until(otherProcess().acquire('b', ttl));
    const lock = await until(redlock.acquire('a', ttl));
    void redlock.acquire(['a', 'b'], ttl).catch(() => undefined);
    // Too patient to find out by itself.
    const other = otherProcess({ retryDelay: { min: 5_000, max: 6_000 } });
    const others = other.acquire('a', ttl, { wait: 20_000 });
    await environment.advance(200);

    const releasedAt = environment.now();
    void lock.release();
    await until(others);

    expect(environment.now() - releasedAt).toBeLessThan(200);
  });

  it.each([10, 20, 40])(
    'is had by other processes too, where each of those calls takes %i ms',
    async (duration) => {
      const { redlock, environment, nodes, otherProcess, until } = setScene();
      for (const node of nodes) node.delay({ request: 0.2, answer: 0.2 });
      const work = (): Promise<void> =>
        new Promise((resolve) => environment.schedule(duration, resolve));
      const transfer = async (account: string): Promise<never> => {
        for (;;) await redlock.using(['hot', account], {}, work);
      };
      for (const account of ['a', 'b', 'c']) void transfer(account);
      await environment.advance(100);

      const other = otherProcess().acquire('hot', ttl, { wait: 500 });

      expect((await until(other)).isValid).toBe(true);
    },
  );
});

describe('a call that comes while the release before it is under way', () => {
  it('keeps other processes out for 50 ms at most', async () => {
    const { redlock, environment, nodes, otherProcess, until } = setScene();
    for (const node of nodes) node.delay({ request: 0.2, answer: 0.2 });
    const work = async (): Promise<never> => {
      for (;;) {
        const lock = await redlock.acquire('r', ttl);
        await new Promise<void>((resolve) => environment.schedule(15, resolve));
        void lock.release();
      }
    };
    void work();
    await environment.advance(100);

    const other = otherProcess().acquire('r', ttl, { wait: 500 });

    expect((await until(other)).isValid).toBe(true);
  });
});

describe('calls of one process', () => {
  it('get the lock in the order in which they asked', async () => {
    const { redlock, environment, until } = setScene();
    const order: number[] = [];

    const calls = [1, 2, 3, 4, 5].map((place) =>
      redlock.using('r', { ttl, wait: 60_000 }, async () => {
        order.push(place);
        await environment.settle();
      }),
    );
    await until(Promise.all(calls));

    expect(order).toEqual([1, 2, 3, 4, 5]);
  });

  it('do not vote each other down: only the first in the queue asks the nodes', async () => {
    const { redlock, otherProcess, environment, node, until } = setScene();
    await until(otherProcess().acquire('r', ttl));
    const before = node(0).count('acquire');

    const calls = Promise.allSettled(
      [1, 2, 3, 4, 5].map(() => redlock.acquire('r', ttl, { wait: 1 })),
    );
    await environment.settle();

    // Once, and once more when it would hear of a release.
    expect(node(0).count('acquire')).toBe(before + 2);
    await until(calls);
  });

  it('wake up by a release in the same process, without waiting for the next poll', async () => {
    const { redlock, environment, until } = setScene();
    const retryDelay = { min: 3_000, max: 3_000 };
    const lock = await until(redlock.acquire('r', ttl));
    const waiting = redlock.acquire('r', ttl, { wait: 60_000, retryDelay });
    await environment.advance(50);

    await until(lock.release());
    await environment.settle();

    expect((await until(waiting, 1)).isValid).toBe(true);
  });

  it('may wait for as long as a timer can run, and not with a longer one', async () => {
    const { redlock, environment, until } = setScene();
    const longest = 2_147_483_647;
    const startTimer = jest.spyOn(environment, 'startTimer');
    const lock = await until(redlock.acquire('r', ttl));

    const waiting = redlock.acquire('r', ttl, { wait: longest });
    await until(lock.release());

    expect((await until(waiting)).isValid).toBe(true);
    expect(Math.max(...startTimer.mock.calls.map(([delay]) => delay))).toBe(longest);
  });

  it.each([0, 1, 2])(
    'pass over one in whose middle the stack was used up, at node %i',
    async (at) => {
      const { redlock, environment, node, owners, rejection, until } = setScene();
      const overflow = new RangeError('Maximum call stack size exceeded');
      jest.spyOn(node(at), 'acquire').mockImplementationOnce(() => {
        throw overflow;
      });

      const { signal } = new AbortController();
      const error = await rejection(redlock.acquire('r', ttl, { signal }));
      await environment.advance(1_000);
      const listeners = getEventListeners(signal, 'abort').length;
      const left = [...(await owners()), redlock.status().waiting, listeners];
      const next = await until(redlock.acquire('r', ttl, { wait: 0 }));

      expect([error, left]).toEqual([overflow, [null, null, null, 0, 0]]);
      expect(next.isValid).toBe(true);
    },
  );

  it('pass over one that has given up', async () => {
    const { redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const impatient = reasonOf(redlock.acquire('r', ttl, { wait: 100 }));
    const patient = redlock.acquire('r', ttl, { wait: 60_000 });
    const error = await until(impatient);

    await until(lock.release());

    expect(error).toBeInstanceOf(LockTakenError);
    expect((await until(patient)).isValid).toBe(true);
  });
});
