// When an acquisition asks the nodes again.
import { describe, expect, it } from '@jest/globals';

import { setScene, type Scene } from './scene.js';

const ttl = 10_000;

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

  it('grows with their resources in a crowd, and only for the calls that want so many', async () => {
    const scene = setScene();
    const wants = (index: number): string[] =>
      Array.from({ length: index < 50 ? 50 : 5 }, (_, name) => `order:${index}:${name}`);
    const orders = Array.from({ length: 200 }, (_, index) => wants(index));
    for (const node of scene.nodes) for (const [first = ''] of orders) node.occupy(first, 60_000);

    const options = { wait: 3_000, retryDelay: { min: 40, max: 60 } };
    const calls = orders.map((order) => scene.redlock.acquire(order, ttl, options));
    const outcome = Promise.allSettled(calls);
    await scene.environment.advance(1_000);
    const before = scene.node(0).calls.length;
    await scene.environment.advance(1_000);
    const attempts = scene
      .node(0)
      .calls.slice(before)
      .filter(({ operation }) => operation === 'acquire');
    const large = attempts.filter(({ request }) => request?.resources.length === 50);

    expect(large.length).toBeLessThan(150);
    expect(attempts.length - large.length).toBeGreaterThan(2_000);
    await scene.environment.advance(2_000);
    await outcome;
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

describe('the attempts of calls that wait for different resources', () => {
  function attemptsAt({ node }: Scene): number[] {
    return node(0)
      .calls.filter(({ operation }) => operation === 'acquire')
      .map(({ at }) => at);
  }

  it.each(['are heard', 'cannot be heard'] as const)(
    'are made together, where releases %s: at no more than 100 moments of a second',
    async (hearing) => {
      const scene = setScene();
      const resources = Array.from({ length: 100 }, (_, index) => `sku:${index}`);
      for (const each of scene.nodes) {
        for (const resource of resources) each.occupy(resource, 60_000);
        each.isDeaf = hearing === 'cannot be heard';
      }

      const options = { wait: 2_000, retryDelay: { min: 40, max: 60 } };
      const calls = resources.map((resource) => scene.redlock.acquire(resource, ttl, options));
      const outcome = Promise.allSettled(calls);
      await scene.environment.advance(500);
      const before = attemptsAt(scene).length;
      await scene.environment.advance(1_000);
      const attempts = attemptsAt(scene).slice(before);

      expect(attempts.length).toBeGreaterThan(1_500);
      expect(new Set(attempts).size).toBeLessThanOrEqual(101);
      await scene.environment.advance(1_000);
      await outcome;
    },
  );

  it('are made exactly when due, where the delay is short', async () => {
    const scene = setScene();
    for (const each of scene.nodes) {
      each.occupy('r', 60_000);
      each.isDeaf = true;
    }

    const options = { wait: 1_000, retryDelay: { min: 7, max: 7 } };
    await scene.rejection(scene.redlock.acquire('r', ttl, options));

    const times = attemptsAt(scene).slice(0, -1);
    const pauses = times.slice(1).map((at, index) => at - (times[index] ?? 0));
    expect(Math.max(...pauses)).toBeLessThanOrEqual(7);
  });

  it('do not go on for longer than `wait`', async () => {
    const scene = setScene();
    for (const each of scene.nodes) each.occupy('r', 60_000);

    for (let wait = 100; wait < 160; wait += 1) {
      const start = scene.environment.now();
      await scene.rejection(scene.redlock.acquire('r', ttl, { wait }));
      // By as much as a timer of Node may be early it rests longer, to be sure that `wait` is over.
      expect(scene.environment.now() - start).toBeLessThanOrEqual(wait + 3);
    }
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
