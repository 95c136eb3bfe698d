import { describe, expect, it } from '@jest/globals';

import { LockTakenError } from '../../lib/core/errors.js';
import { Redlock } from '../../lib/core/redlock.js';
import { FaultyNode } from '../../lib/testing/faulty-node.js';
import { deferred, expectInstance, reasonOf, setScene } from './scene.js';
import type { Scene } from './scene.js';
import type { SimulatedEnvironment } from '../support/simulated-environment.js';
import type { TestNode } from '../support/test-node.js';

const ttl = 10_000;

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

  describe('that a slow node decides', () => {
    const split = (): Scene => {
      const scene = setScene();
      scene.node(1).occupy('r', 60_000);
      scene.node(2).delay({ answer: 40 });
      return scene;
    };

    it('is waited for in the first attempt', async () => {
      const { environment, redlock, until } = split();
      const startedAt = environment.now();

      await until(redlock.acquire('r', ttl, { wait: 5_000 }));

      expect(environment.now() - startedAt).toBe(40);
    });

    it('is waited for in those that may be the last', async () => {
      const { environment, redlock, node, until } = split();
      node(2).occupy('r', 60_000, 'one more client');
      const call = redlock.acquire('r', ttl, { wait: 0 });
      await environment.advance(40);

      node(2).vacate('r', 'one more client');

      expect((await until(call)).isValid).toBe(true);
    });
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

    it('is no matter of too few nodes where it grants and the others have too little time', async () => {
      const { environment, redlock, node, until } = split();
      const call = reasonOf(redlock.acquire('r', ttl, { wait: 600, retryDelay }));
      await environment.settle();

      node(0).expireNow('r');
      node(1).hang();
      node(2).hang();

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

  it.each([
    { min: 20, max: 120, pauseMax: 120 },
    // Of 500 ms, the node timeout, are only the pauses of those who may draw nothing less.
    { min: 20, max: 1_000_000, pauseMax: 500 },
    { min: 2_000, max: 3_000, pauseMax: 501 },
  ])(
    'is not for ever: with no time to wait, 4 attempts tell that the lock is taken (%j)',
    async ({ pauseMax, ...retryDelay }) => {
      const { environment, redlock, node, rejection } = setScene();
      node(1).occupy('r', 60_000);
      node(2).occupy('r', 60_000);
      const listeners: number[] = [];
      node(1).onServed = () => listeners.push(node(1).listenersOf('r'));
      const startedAt = environment.now();

      const error = await rejection(redlock.acquire('r', ttl, { wait: 0, retryDelay }));

      expect(error).toBeInstanceOf(LockTakenError);
      expect(node(0).count('acquire')).toBe(4);
      expect(environment.now() - startedAt).toBeLessThan(3 * pauseMax);
      expect(Math.max(...listeners)).toBe(0);
    },
  );

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
