import { describe, expect, it, jest } from '@jest/globals';
import { getEventListeners } from 'node:events';

import {
  LockExpiredError,
  LockTakenError,
  NoQuorumError,
  RedlockError,
} from '../../lib/core/errors.js';
import { Redlock } from '../../lib/core/redlock.js';
import { FaultyNode } from '../../lib/testing/faulty-node.js';
import { deferred, expectInstance, reasonOf, setScene } from './scene.js';
import type { Lock } from '../../lib/core/lock.js';
import type { Scene } from './scene.js';
import type { SimulatedEnvironment } from '../support/simulated-environment.js';
import type { TestNode } from '../support/test-node.js';

const ttl = 10_000;

describe('a free resource', () => {
  it('is locked on all nodes by one attempt', async () => {
    const { redlock, nodes, owners, observer, until } = setScene();

    const lock = await until(redlock.acquire('r', ttl));

    expect(await owners()).toEqual([lock.ownerId, lock.ownerId, lock.ownerId]);
    expect(nodes.map((node) => node.count('acquire'))).toEqual([1, 1, 1]);
    expect(observer.acquired).toHaveBeenCalledWith(lock, 0, 1);
  });

  it.each([1, 2, 3, 4, 5])('is locked with %i nodes', async (nodeCount) => {
    const { redlock, until } = setScene({ nodes: nodeCount });

    const lock = await until(redlock.acquire('r', ttl));

    expect(lock.isValid).toBe(true);
  });

  it.each([
    [3, 1],
    [4, 1],
    [5, 2],
  ])('of %i nodes is locked while %i are down', async (nodeCount, down) => {
    const { redlock, nodes, until } = setScene({ nodes: nodeCount });
    for (const node of nodes.slice(0, down)) node.refuse();

    const lock = await until(redlock.acquire('r', ttl, { wait: 0 }));

    expect(lock.isValid).toBe(true);
  });

  it('is locked for the default ttl where the call names none', async () => {
    const { redlock, until } = setScene();

    const lock = await until(redlock.acquire('r'));

    expect(lock.remaining).toBeCloseTo(9_898, 6);
  });
});

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

describe('a wait of 0', () => {
  it('makes one attempt', async () => {
    const { redlock, otherProcess, environment, node, rejection, until } = setScene();
    await until(otherProcess().acquire('r', ttl));
    const before = node(0).count('acquire');

    const error = await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(error).toBeInstanceOf(LockTakenError);
    expect(node(0).count('acquire')).toBe(before + 1);
    expect(environment.pendingTimers).toBe(1);
  });

  it('subscribes to nothing', async () => {
    const { redlock, node, rejection } = setScene();
    node(0).occupy('r', 60_000);
    node(1).occupy('r', 60_000);
    const listen = jest.spyOn(node(0), 'listen');

    await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(listen).not.toHaveBeenCalled();
  });

  it('does not queue behind other calls of its process', async () => {
    const { redlock, otherProcess, environment, node, rejection, until } = setScene();
    await until(otherProcess().acquire('r', ttl));
    const queued = reasonOf(redlock.acquire('r', ttl, { wait: 1_000 }));
    await environment.advance(10);
    const before = node(0).count('acquire');

    const error = expectInstance(
      await rejection(redlock.acquire(['r', 'a'], ttl, { wait: 0 }), 1),
      LockTakenError,
    );

    expect(error.message).toContain(
      'Could not lock "a", "r" within 0 ms: other calls of this process hold or wait for "r". ',
    );
    expect(error.resources).toEqual(['a', 'r']);
    expect(error.taken).toEqual(['r']);
    expect(error.retryAfter).toBeNull();
    expect(node(0).count('acquire')).toBe(before);
    await until(queued);
  });

  it('gives that attempt the whole node timeout', async () => {
    const { redlock, nodes, until } = setScene();
    for (const node of nodes) node.delay({ answer: 499 });

    const lock = await until(redlock.acquire('r', ttl, { wait: 0 }));

    expect(lock.isValid).toBe(true);
  });
});

describe('a taken resource', () => {
  it('is asked for again until `wait` is spent, and not for longer', async () => {
    const { redlock, otherProcess, environment, observer, rejection, until } = setScene();
    await until(otherProcess().acquire('r', 30_000));
    const startedAt = environment.now();

    const error = await rejection(redlock.acquire('r', ttl, { wait: 2_000 }));

    const waited = environment.now() - startedAt;
    expect(waited).toBeGreaterThan(1_990);
    expect(waited).toBeLessThanOrEqual(2_001);
    const [resources, reported, reportedWait, attempts] = observer.refused.mock.calls[0] ?? [];
    expect(resources).toEqual(['r']);
    expect(reported).toBe(error);
    expect(reportedWait).toBeCloseTo(waited, -1);
    expect(attempts).toBeGreaterThan(10);
    expect(expectInstance(error, LockTakenError).message).toMatch(
      /^Could not lock "r" in \d+ attempts and (1999|200\d) ms: held by another owner for another \d+ ms, unless extended\. Nodes: node-0 taken \(for another \d+ ms\)/,
    );
  });

  it('is asked for by somebody else within its wait as soon as it is free', async () => {
    const { redlock, otherProcess, environment, until } = setScene();
    const lock = await until(otherProcess().acquire('r', ttl));
    const waiting = redlock.acquire('r', ttl);
    await environment.advance(1_000);

    await until(lock.release());
    const startedAt = environment.now();
    await until(waiting);

    expect(environment.now() - startedAt).toBeLessThanOrEqual(120);
  });

  it('is free again after the ttl of a process that died', async () => {
    const { redlock, otherProcess, environment, until } = setScene();
    await until(otherProcess().acquire('r', 2_000));
    const startedAt = environment.now();

    const lock = await until(redlock.acquire('r', ttl));

    expect(environment.now() - startedAt).toBeLessThanOrEqual(2_000 + 121);
    expect(lock.remaining).toBeCloseTo(9_898, 6);
  });

  it('gives a lock with its whole ttl, however long it was waited for', async () => {
    const { redlock, otherProcess, environment, nodes, until } = setScene();
    // Longer than drift: counted from the answer, the lock would outlive its keys.
    for (const node of nodes) node.delay(200);
    const held = await until(otherProcess().acquire('r', 30_000));
    const waiting = redlock.acquire('r', ttl, { wait: 60_000 });
    await environment.advance(25_000);

    await until(held.release());
    const lock = await until(waiting);
    const kept = await Promise.all(nodes.map((node) => node.keyLifetime('r')));

    expect(lock.remaining).toBeGreaterThan(9_690);
    expect(lock.remaining).toBeLessThan(Math.min(...kept));
  });

  it('says when it may be free again', async () => {
    const { redlock, nodes, rejection } = setScene();
    nodes.forEach((node, index) => node.occupy('r', 1_000 * (index + 1)));

    const error = await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(expectInstance(error, LockTakenError).retryAfter).toBe(1_000);
  });

  it('whose holder no node knows the end of says so', async () => {
    const { redlock, nodes, rejection } = setScene({ nodes: 4 });
    nodes.forEach((node, index) => node.occupy('r', 1_000 * (index + 1)));
    nodes[0]?.refuse();

    const error = await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(expectInstance(error, LockTakenError).retryAfter).toBe(4_000);
  });

  it('is told as taken, not as a lack of nodes, when `wait` cuts the last attempt short', async () => {
    const { redlock, nodes, rejection } = setScene();
    for (const node of nodes) {
      node.occupy('r', 60_000);
      node.delay({ request: 5, answer: 5 });
    }
    const retryDelay = { min: 30, max: 30 };

    const errors: unknown[] = [];
    for (let wait = 40; wait < 80; wait += 3) {
      errors.push(await rejection(redlock.acquire('r', ttl, { wait, retryDelay })));
    }

    const codes = errors.map((error) => expectInstance(error, RedlockError).code);
    expect(new Set(codes)).toEqual(new Set(['LOCK_TAKEN']));
  });
});

describe('the delay between two attempts', () => {
  it('is random between its bounds, where releases cannot be heard', async () => {
    const { redlock, nodes, node, rejection } = setScene();
    for (const each of nodes) {
      each.occupy('r', 60_000);
      each.isDeaf = true;
    }

    await rejection(redlock.acquire('r', ttl, { wait: 20_000, retryDelay: { min: 40, max: 80 } }));

    const starts = node(0)
      .calls.filter(({ operation }) => operation === 'acquire')
      .map(({ at }) => at);
    const pauses = starts.slice(1, -1).map((at, index) => at - (starts[index] ?? 0));
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(39);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(80);
    expect(Math.max(...pauses) - Math.min(...pauses)).toBeGreaterThan(30);
  });

  it.each(['are heard', 'cannot be heard'] as const)(
    'grows with a crowd, where releases %s: 1,000 calls make no more than 5,000 attempts a second',
    async (hearing) => {
      const { redlock, nodes, node, environment } = setScene();
      const resources = Array.from({ length: 1_000 }, (_, index) => `sku:${index}`);
      for (const each of nodes) {
        for (const resource of resources) each.occupy(resource, 60_000);
        each.isDeaf = hearing === 'cannot be heard';
      }

      const options = { wait: 3_000, retryDelay: { min: 40, max: 60 } };
      const calls = resources.map((resource) => redlock.acquire(resource, ttl, options));
      const outcome = Promise.allSettled(calls);
      await environment.advance(1_000);
      const before = node(0).count('acquire');
      await environment.advance(1_000);
      const attempts = node(0).count('acquire') - before;

      expect(attempts).toBeGreaterThan(3_000);
      expect(attempts).toBeLessThan(5_000);
      await environment.advance(2_000);
      expect((await outcome).map(({ status }) => status)).not.toContain('fulfilled');
    },
  );
});

describe("the keys of a client's own earlier attempt", () => {
  it.each([
    ['after', [0, 1, 2]],
    ['before', [2, 3, 4]],
  ])(
    'do not vote its next one down: 4 of 5 nodes free at the second attempt are enough (votes won %s those lost)',
    async (_, taken) => {
      const { environment, redlock, nodes, node, observer, until } = setScene({ nodes: 5 });
      for (const each of nodes) each.delay({ request: 3, answer: 3 });
      for (const index of taken) node(index).occupy('r', 60_000);
      const call = redlock.acquire('r', ttl, { retryDelay: { min: 1, max: 1 } });
      await environment.advance(4);
      for (const index of taken.slice(1)) node(index).vacate('r');

      const lock = await until(call);

      expect(observer.acquired).toHaveBeenCalledWith(lock, expect.any(Number), 2);
    },
  );
});

describe('nodes that go down while a call waits', () => {
  it('are what its error tells of, not who held the resource before', async () => {
    const { environment, redlock, nodes, rejection } = setScene();
    for (const node of nodes) node.occupy('r', 60_000);
    const refused = rejection(redlock.acquire('r', ttl, { wait: 2_000 }));
    await environment.advance(500);

    for (const node of nodes) node.refuse();

    expect(await refused).toBeInstanceOf(NoQuorumError);
  });
});

describe('a split vote', () => {
  it.each([
    ['first live node, which asks no other when it is taken', [1, 2], [1, 2, 1, 1]],
    ['first live node, and at all when it grants again', [2, 3], [2, 2, 2, 2]],
  ])('is followed by an attempt at the %s', async (_, taken, counts) => {
    const { environment, redlock, nodes, node, until } = setScene({ nodes: 4 });
    node(0).refuse();
    for (const index of taken) {
      node(index).occupy('r', 60_000);
      node(index).delay({ answer: 1 });
    }
    const call = reasonOf(redlock.acquire('r', ttl, { retryDelay: { min: 100, max: 100 } }));

    await environment.advance(10);

    expect(nodes.map((each) => each.count('acquire'))).toEqual(counts);
    void redlock.close();
    await until(call);
  });

  describe('that the first live node decides at last', () => {
    const split = (): Scene => {
      const scene = setScene();
      for (const index of [0, 1]) {
        scene.node(index).occupy('r', 60_000);
        scene.node(index).delay({ answer: 1 });
      }
      return scene;
    };
    const retryDelay = { min: 100, max: 100 };

    it('is told with that the others were not asked', async () => {
      const { redlock, rejection } = split();

      const error = expectInstance(
        await rejection(redlock.acquire('r', ttl, { wait: 90, retryDelay })),
        LockTakenError,
      );

      expect(error.message).toMatch(
        /in 4 attempts .*node-0 was not asked, node-1 taken \(for .* ms\), node-2 was not asked\./,
      );
      expect(error.votes[2]).toEqual({ node: 'node-2', vote: 'none', message: 'was not asked' });
    });

    it('is no matter of too few nodes where that one falls silent', async () => {
      const { environment, redlock, node, until } = split();
      const call = reasonOf(redlock.acquire('r', ttl, { wait: 600, retryDelay }));
      await environment.settle();

      node(0).hang();

      const { message } = expectInstance(await until(call), LockTakenError);
      expect(message).toMatch(/in 2 attempts .*node-0 taken \(.*node-1 taken \(.*node-2 granted/);
    });
  });

  it.each([1, 2, 3, 4, 5])(
    'of 3 clients is over within a few round trips (seed %i)',
    async (seed) => {
      const { environment, nodes, owners, until } = setScene({ seed });
      const clients = nodes.map((nearest) => clientNextTo(nearest, nodes, environment));
      const startedAt = environment.now();

      const calls = clients.map((client) => client.acquire('r', ttl).catch(() => null));
      await environment.advance(1);
      const owning = new Set(await owners());
      const winner = await until(Promise.race(calls));

      expect(owning.size).toBe(3);
      expect(winner?.isValid).toBe(true);
      expect(environment.now() - startedAt).toBeLessThan(1_000);
    },
  );

  it.each([1, 2, 3, 4, 5])(
    'of 3 replicas whose cron fires at once, with no time to wait, lets one run (seed %i)',
    async (seed) => {
      const { environment, nodes, owners, until } = setScene({ seed });
      const replicas = nodes.map((nearest) => clientNextTo(nearest, nodes, environment));

      const calls = replicas.map((replica) => replica.tryAcquire('job', ttl));
      await environment.advance(1);
      const owning = new Set(await owners('job'));
      const locks = await until(Promise.all(calls));

      expect(owning.size).toBe(3);
      expect(locks.filter((lock) => lock !== null)).toHaveLength(1);
    },
  );

  it.each(
    [1, 2, 3, 4, 5]
      .map((seed) => ({ seed, lifetime: ttl }))
      .concat(
        // Short ones, whose pauses have little room.
        Array.from({ length: 60 }, (_, seed) => ({ seed, lifetime: 1_000 })),
      ),
  )(
    'is won also where somebody who is gone has left a key with the node that decides (%j)',
    async ({ seed, lifetime }) => {
      const { environment, nodes, node, until } = setScene({ seed });
      node(0).occupy('job', 60_000);
      const replicas = nodes.map((nearest) => clientNextTo(nearest, nodes, environment));

      const calls = replicas.map((each) => each.tryAcquire('job', lifetime));
      const locks = await until(Promise.all(calls));

      expect(locks.filter((lock) => lock !== null)).toHaveLength(1);
    },
  );

  it.each<[string, (node: TestNode) => void]>([
    ['a node is down', (node) => node.refuse()],
    ['somebody who is gone has left a key', (node) => node.occupy('job', 60_000)],
  ])('is seen where %s and taken nodes answer before those that granted', async (_, breakNode) => {
    const { environment, nodes, node, until } = setScene();
    breakNode(node(2));
    const replicas = [0, 1].map((nearest) => {
      const own = nodes.map((each, index) => {
        const way = new FaultyNode({ node: each, environment });
        way.delay(index === nearest ? { request: 1, answer: 5 } : { request: 3, answer: 1 });
        return way;
      });
      return new Redlock(own, {}, { environment });
    });

    const locks = await until(Promise.all(replicas.map((each) => each.tryAcquire('job', ttl))));

    expect(locks.filter((lock) => lock !== null)).toHaveLength(1);
  });

  it('is not looked for where a quorum names one owner: nobody waits for a slow node', async () => {
    const { environment, redlock, node, otherProcess, until } = setScene();
    const held = await until(otherProcess().acquire('r', ttl));
    node(2).delay({ answer: 40 });
    const asked = environment.now();

    expect(await until(redlock.tryAcquire('r', ttl))).toBeNull();

    expect(environment.now() - asked).toBeLessThan(10);
    await until(held.release());
  });

  it('is not for ever: with no time to wait, 4 attempts tell that the lock is taken', async () => {
    const { redlock, node, rejection } = setScene();
    node(1).occupy('r', 60_000);
    node(2).occupy('r', 60_000);

    const error = await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(error).toBeInstanceOf(LockTakenError);
    expect(node(0).count('acquire')).toBe(4);
  });

  it('that the first node decided in vain is decided by the next one', async () => {
    const { redlock, nodes, node, rejection } = setScene();
    for (const index of [0, 1]) {
      node(index).occupy('r', 60_000);
      node(index).delay({ answer: 1 });
    }

    const error = await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(error).toBeInstanceOf(LockTakenError);
    expect(nodes.map((each) => each.count('acquire'))).toEqual([3, 3, 2]);
  });

  it('with the own process, behind its holder, is followed by no other attempt', async () => {
    const { environment, redlock, node, until } = setScene();
    const work = deferred();
    const held = redlock.using('r', { watchdog: false }, () => work.promise);
    await environment.advance(1);
    node(0).lose();

    const refused = reasonOf(redlock.using('r', { wait: 0 }, () => undefined));
    await environment.advance(10);
    work.resolve();
    await until(held);

    expect(await until(refused)).toBeInstanceOf(LockTakenError);
    expect(await until(redlock.tryAcquire('r'))).not.toBeNull();
  });
});

describe('a vote that cannot be won for a while', () => {
  it.each([1, 3])('is polled for by %i processes, which do not wake each other', async (count) => {
    const { environment, nodes, node, otherProcess, until } = setScene();
    for (const each of nodes) each.delay({ request: 1, answer: 1 });
    // An owner died with the keys of a minority, and another node has restarted.
    node(1).occupy('r', 3_000);
    node(2).fail('quarantined');
    const calls = Array.from({ length: count }, async () => {
      const lock = await otherProcess().acquire('r', 10_000, { wait: 20_000 });
      await lock.release();
    });
    await environment.advance(500);
    const before = node(0).count('acquire');

    await environment.advance(1_000);

    // One every 40 to 60 ms.
    expect((node(0).count('acquire') - before) / count).toBeLessThan(30);
    node(2).heal();
    await until(Promise.all(calls));
  });
});

describe('a lock whose answers came after its ttl', () => {
  it('is refused as expired, and undone', async () => {
    const { environment, redlock, nodes, owners, until } = setScene();
    for (const node of nodes) node.delay({ answer: 1 });
    const call = reasonOf(redlock.acquire('r', 1_000, { wait: 0 }));
    await environment.settle();
    environment.block(1_500);

    const error = expectInstance(await until(call), LockExpiredError);

    expect(error.message).toMatch(
      /a quorum granted it too late to be of use\. .* Use a longer ttl/,
    );
    expect(error.votes.map(({ vote }) => vote)).toEqual(['granted', 'granted', 'none']);
    expect(await owners()).toEqual([null, null, null]);
  });
});

describe('too few nodes', () => {
  it('are told as such also where the node that votes has the attempt of another', async () => {
    const { redlock, node, rejection } = setScene();
    node(0).occupy('r', 60_000);
    node(1).refuse();
    node(2).fail('quarantined');
    node(2).delay({ answer: 5 });

    const error = await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(error).toBeInstanceOf(NoQuorumError);
  });

  it('are told with what each of them said', async () => {
    const { redlock, node, rejection } = setScene();
    node(0).refuse();
    node(1).fail('answerOdd', 'acquire');

    const error = expectInstance(
      await rejection(redlock.acquire('r', ttl, { wait: 0 })),
      NoQuorumError,
    );

    expect(error.message).toMatch(
      /^Could not lock "r" in 1 attempt and 0 ms: fewer than 2 of 3 nodes could vote\. Nodes: node-0 failed/,
    );
    expect(error.votes).toEqual([
      { node: 'node-0', vote: 'failed', message: 'the connection is not ready' },
      {
        node: 'node-1',
        vote: 'failed',
        message: 'the connection was lost after the request was sent',
      },
      { node: 'node-2', vote: expect.stringMatching(/none|granted/), message: '' },
    ]);
  });

  it('are told to all calls of a process, also to those whose turn never came', async () => {
    const { redlock, nodes, until } = setScene();
    for (const node of nodes) node.refuse();
    const calls = Array.from({ length: 20 }, () =>
      reasonOf(redlock.acquire('r', ttl, { wait: 300 })),
    );

    const errors = await until(Promise.all(calls));

    for (const error of errors) expect(error).toBeInstanceOf(NoQuorumError);
    expect(expectInstance(errors[10], NoQuorumError).message).toMatch(
      /^Could not lock "r" within 300 ms, behind other calls of this process: fewer than 2 of 3 /,
    );
    expect(errors[10]).toHaveProperty('votes', expectInstance(errors[0], NoQuorumError).votes);
  });

  it('are not called a taken lock by an attempt that finds others before it', async () => {
    const { environment, redlock, nodes, rejection, until } = setScene();
    for (const node of nodes) node.refuse();
    const before = reasonOf(redlock.acquire('r', ttl, { wait: 300 }));
    await environment.advance(100);

    const error = await rejection(redlock.tryAcquire(['a', 'r'], ttl));

    expect(error).toBeInstanceOf(NoQuorumError);
    await until(before);
  });

  it('are forgotten as soon as enough of them vote again', async () => {
    const { environment, redlock, nodes, rejection, until } = setScene();
    for (const node of nodes) node.refuse();
    const before = redlock.acquire('r', ttl);
    const behind = redlock.acquire('r', ttl);
    await environment.advance(1_000);
    for (const node of nodes) node.heal();
    const lock = await until(before);

    const error = await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(error).toBeInstanceOf(LockTakenError);
    await until(lock.release());
    await until((await until(behind)).release());
  });

  it('are waited for: one that comes back in time gives the lock', async () => {
    const { environment, redlock, node, until } = setScene();
    node(0).refuse();
    node(1).refuse();
    const call = redlock.acquire('r', ttl);
    await environment.advance(1_000);

    node(1).heal();

    expect((await until(call)).isValid).toBe(true);
  });

  it('are listened to by nobody: what is not held is not released', async () => {
    const { environment, redlock, nodes, until } = setScene();
    for (const node of nodes) node.fail('quarantined', 'acquire');
    const call = redlock.acquire('r', ttl);
    await environment.advance(1_000);

    const listeners = nodes.map((node) => node.listenersOf('r'));
    for (const node of nodes) node.heal();
    await until(call);

    expect(listeners).toEqual([0, 0, 0]);
  });

  it('that hang are asked again after each node timeout', async () => {
    const { environment, redlock, nodes, node, rejection } = setScene();
    for (const each of nodes) each.hang();
    const startedAt = environment.now();

    await rejection(redlock.acquire('r', ttl, { wait: 3_000 }));

    expect(node(0).count('acquire')).toBeGreaterThanOrEqual(5);
    expect(environment.now() - startedAt).toBeLessThanOrEqual(3_001);
  });

  it('because of quarantine are told as that', async () => {
    const { redlock, nodes, owners, rejection } = setScene();
    for (const node of nodes) node.fail('quarantined', 'acquire');

    const error = expectInstance(
      await rejection(redlock.acquire('r', ttl, { wait: 0 })),
      NoQuorumError,
    );

    expect(error.message).toMatch(
      /quarantined \(restarted or lost its data; its votes count in 1000 ms\)/,
    );
    expect(await owners()).toEqual([null, null, null]);
  });

  it('because of a wrong password reject at once, not after `wait`', async () => {
    const { environment, redlock, node, rejection } = setScene();
    node(0).fail('misconfigured');
    node(1).fail('misconfigured');
    const startedAt = environment.now();

    const error = expectInstance(await rejection(redlock.acquire('r', ttl)), NoQuorumError);

    expect(environment.now()).toBe(startedAt);
    expect(error.message).toMatch(
      /: too many nodes are misconfigured for a quorum of 2 of 3\. Nodes: node-0 failed \(WRONGPASS/,
    );
  });
});

describe('one hung node of three', () => {
  it('neither slows an acquisition nor stretches its wait', async () => {
    const { environment, redlock, otherProcess, node, rejection, until } = setScene();
    node(0).hang();
    const startedAt = environment.now();

    const lock = await until(otherProcess().acquire('r', 30_000));
    const lockedAt = environment.now();
    await rejection(redlock.acquire('r', ttl, { wait: 1_000 }));

    expect(lockedAt).toBe(startedAt);
    expect(environment.now() - lockedAt).toBeLessThanOrEqual(1_001);
    expect(lock.isValid).toBe(true);
  });

  it('keeps no key of a failed call once it runs again', async () => {
    const { environment, redlock, node, rejection } = setScene();
    node(0).hang();
    node(1).occupy('r', 60_000);
    node(2).occupy('r', 60_000);
    await rejection(redlock.acquire('r', ttl, { wait: 1_000 }));

    node(0).heal();
    await environment.settle();

    expect(await node(0).ownerOf('r')).toBeNull();
  });
});

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

  it('that comes just after the quorum gives the lock back', async () => {
    const { redlock, environment, node, owners, rejection, until } = setScene({ nodes: 1 });
    const controller = new AbortController();
    // One that queues: what is granted at the first attempt is told in the same step.
    const before = await until(redlock.acquire('r', ttl));
    const waiting = rejection(redlock.acquire('r', ttl, { signal: controller.signal }));
    node(0).onServed = (operation) => {
      if (operation !== 'acquire') return;
      // Two steps later: the answer was counted, and nobody was told yet.
      queueMicrotask(() => queueMicrotask(() => controller.abort(reason)));
    };

    void before.release();
    const error = await waiting;

    expect(error).toBe(reason);
    await until(environment.advance(1));
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

  it.each([0, 1, 2, 3, 4, 5])(
    'that comes %i steps after its turn leaves the turn to others, and waits for no node',
    async (steps) => {
      const { redlock, environment, nodes, otherProcess, until, rejection } = setScene();
      const controller = new AbortController();
      const lock = await until(redlock.acquire('r', ttl));
      const next = rejection(redlock.acquire('r', ttl, { signal: controller.signal }));
      // Too patient to find out by itself.
      const other = otherProcess({ retryDelay: { min: 5_000, max: 6_000 } });
      const others = other.acquire('r', ttl, { wait: 20_000 });
      await environment.advance(200);
      for (const node of nodes) node.delay({ answer: 20 });
      const releasedAt = environment.now();

      void lock.release();
      for (let step = 0; step < steps; step += 1) await Promise.resolve();
      controller.abort(reason);

      expect(await next).toBe(reason);
      expect(environment.now() - releasedAt).toBeLessThan(20);
      await until(others);
      expect(environment.now() - releasedAt).toBeLessThan(200);
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

describe('tryAcquire', () => {
  it('gives a lock, or null when others hold it', async () => {
    const { redlock, until } = setScene();

    const lock = await until(redlock.tryAcquire('r', ttl));
    const none = await until(redlock.tryAcquire('r', ttl));

    expect(lock?.isValid).toBe(true);
    expect(none).toBeNull();
  });

  it("throws the signal's reason also where that is another lock's being taken", async () => {
    const { redlock, until, rejection } = setScene();
    await until(redlock.acquire('other'));
    const reason = await rejection(redlock.acquire('other', ttl, { wait: 0 }));
    const controller = new AbortController();

    const call = rejection(redlock.tryAcquire('r', ttl, { signal: controller.signal }));
    controller.abort(reason);

    expect(reason).toBeInstanceOf(LockTakenError);
    expect(await call).toBe(reason);
  });

  it('takes options as acquire does', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.tryAcquire('r', ttl, { watchdog: true }));

    await environment.advance(2 * ttl);

    expect(lock?.isValid).toBe(true);
  });

  it('throws at once when there is no quorum', async () => {
    const { environment, redlock, nodes, rejection } = setScene();
    for (const node of nodes) node.refuse();
    const startedAt = environment.now();

    const error = await rejection(redlock.tryAcquire('r', ttl));

    expect(error).toBeInstanceOf(NoQuorumError);
    expect(environment.now()).toBe(startedAt);
  });
});

/** A process with a network of its own, by which one of the nodes is nearer than the others. */
function clientNextTo(
  nearest: TestNode,
  nodes: readonly TestNode[],
  environment: SimulatedEnvironment,
): Redlock {
  const own = nodes.map((node) => {
    const way = new FaultyNode({ node, environment });
    way.delay({ request: node === nearest ? 1 : 3, answer: 1 });
    return way;
  });
  return new Redlock(own, {}, { environment });
}
