import { describe, expect, it } from '@jest/globals';

import { systemEnvironment, type Environment } from '../../lib/core/environment.js';
import { ExpiringMap } from '../../lib/nodes/expiring-map.js';
import { MemoryNode } from '../../lib/nodes/memory-node.js';
import { heapGrowth } from '../support/growth.js';
import { acquire, extend, inspect, release, requestFor, worldOf } from '../support/node-harness.js';
import { describeLockNode } from './lock-node.contract.js';

/** Two clocks that go only where they are told. */
class Clocks implements Environment {
  monotonic = 1_234.5;
  wall = 1_800_000_000_000;
  readonly startTimer = systemEnvironment.startTimer;
  readonly stopTimer = systemEnvironment.stopTimer;
  readonly random = systemEnvironment.random;
  readonly randomId = systemEnvironment.randomId;
  now = (): number => this.monotonic;
  wallClock = (): number => this.wall;

  pass(duration: number): void {
    this.monotonic += duration;
    this.wall += duration;
  }
}

describeLockNode(
  'memory',
  async () => {
    const clocks = new Clocks();
    const node = new MemoryNode({ environment: clocks });
    return {
      node,
      other: node,
      now: () => clocks.wall,
      // Longer than any ttl of the contract, shorter than the fence records live.
      expire: async () => clocks.pass(9_999.9 + 0.2),
    };
  },
  async () => undefined,
);

describe('MemoryNode', () => {
  const SKEW = worldOf().clockSkewMax * 1_000;

  function start(): { clocks: Clocks; node: MemoryNode } {
    const clocks = new Clocks();
    return { clocks, node: new MemoryNode({ environment: clocks }) };
  }

  it('refuses an option that it does not know: a misspelt one would have no effect', () => {
    const options = { enviroment: new Clocks() };

    expect(() => new MemoryNode(options as object)).toThrow(
      'Expected only options of MemoryNodeOptions (name, environment), got "enviroment"',
    );
  });

  it.each<[string, unknown, string]>([
    ['options', null, 'options to be an object, got null'],
    ['options', 'a', 'options to be an object, got a string'],
    ['a name', { name: null }, 'name to be a non-empty string, got null'],
    ['a name', { name: 5 }, 'name to be a non-empty string, got 5'],
    ['an environment', { environment: null }, 'environment to be an Environment, got null'],
    ['an environment', { environment: {} }, 'environment to be an Environment, got an object'],
  ])('refuses what is not %s: %j', (_what, options, message) => {
    expect(() => new MemoryNode(options as object)).toThrow(new TypeError(`Expected ${message}`));
  });

  it('keeps a key to the last moment of its ttl', async () => {
    const { clocks, node } = start();
    const held = requestFor({ token: clocks.wall * 1_000, ttl: 1_000 });
    await acquire(node, held);

    clocks.pass(999.9);
    const before = await acquire(node, requestFor({ token: clocks.wall * 1_000 }));
    clocks.pass(0.2);
    const after = await acquire(node, requestFor({ token: Math.ceil(clocks.wall * 1_000) }));

    expect(before).toEqual({ vote: 'taken', remaining: 1, nth: 0, ownerId: held.ownerId });
    expect(after.vote).toBe('granted');
  });

  it('is not moved by a step of the wall clock', async () => {
    const { clocks, node } = start();
    const start0 = clocks.wall;
    await acquire(node, requestFor({ token: start0 * 1_000, ttl: 1_000 }));

    clocks.wall += 3_600_000;

    const request = requestFor({ token: start0 * 1_000 + 1 });
    expect((await acquire(node, request)).vote).toBe('taken');
    expect(node.status().clockOffset).toBeCloseTo(-3_600_000, 0);
  });

  it('accepts two more than the last token, however far ahead of its clock that is', async () => {
    const { clocks, node } = start();
    const ahead = requestFor({ token: clocks.wall * 1_000 + SKEW });
    await acquire(node, ahead);
    await release(node, ahead);

    const three = await acquire(node, requestFor({ token: ahead.token + 3 }));
    const two = await acquire(node, requestFor({ token: ahead.token + 2 }));

    expect(three).toMatchObject({ vote: 'stale', isAhead: true, low: ahead.token });
    expect(two.vote).toBe('granted');
  });

  it('takes a request for more keys than a function takes arguments', async () => {
    const { clocks, node } = start();
    const resources = Array.from({ length: 200_000 }, (_, index) => `r${index}`);

    const answer = await acquire(node, requestFor({ resources, token: clocks.wall * 1_000 }));

    expect(answer.vote).toBe('granted');
  });

  it('remembers the token of a lock that expired without a release', async () => {
    const { clocks, node } = start();
    const first = requestFor({ token: clocks.wall * 1_000, ttl: 100 });
    await acquire(node, first);

    clocks.pass(101);
    const answer = await acquire(node, requestFor({ token: first.token }));

    expect(answer).toMatchObject({ vote: 'stale', low: first.token });
  });

  it('remembers the token of an extension that created its key, unless a higher one is known', async () => {
    const { clocks, node } = start();
    const token = clocks.wall * 1_000;
    const extendOnce = async (extended: number): Promise<void> => {
      await extend(node, requestFor({ token: extended, ttl: 100 }));
      clocks.pass(101);
    };
    await extendOnce(token + 10);
    await extendOnce(token + 5);

    const answer = await acquire(node, requestFor({ token: token + 10 }));

    expect(answer).toMatchObject({ vote: 'stale', low: token + 10 });
  });

  it('forgets a token only when its clock alone refuses it', async () => {
    const { clocks, node } = start();
    const first = requestFor({ token: clocks.wall * 1_000 + SKEW });
    await acquire(node, first);
    await release(node, first);

    clocks.pass(first.world.fenceRetention + 1);
    const answer = await acquire(node, requestFor({ token: first.token }));

    expect(answer).toMatchObject({ vote: 'stale', isAhead: false });
    expect(answer.vote === 'stale' && answer.low).toBeGreaterThan(first.token);
  });

  it('keeps nothing of those who have stopped listening', async () => {
    const node = new MemoryNode();
    const world = worldOf();
    const ear = { onLive: () => undefined, onWake: () => undefined };
    const useMany = async (round: string): Promise<void> => {
      for (let n = 0; n < 20_000; n += 1) node.listen(world, `${round} ${n}`, ear)();
      await new Promise(setImmediate);
    };

    // A name and an empty set for each would be more than 4 MB.
    expect(await heapGrowth(useMany)).toBeLessThan(1_500_000);
  });

  it('is shared by all who use it, and by nobody else', async () => {
    const node = new MemoryNode({ name: 'shared' });
    const request = requestFor();
    await acquire(node, request);

    const another = new MemoryNode();
    const found = await inspect(another, request.world, 'r');

    expect([node.name, another.name]).toEqual(['shared', 'memory']);
    expect((await acquire(node, requestFor())).vote).toBe('taken');
    expect(found).toMatchObject({ ownerId: null });
  });
});

describe('ExpiringMap', () => {
  it('drops ended entries while others are added, without a timer', () => {
    const map = new ExpiringMap<number>();
    for (let i = 0; i < 10_000; i += 1) map.set(`key-${i}`, i, i + 10, i);

    expect(map.size).toBeLessThan(50);
  });

  it('keeps what has not ended', () => {
    const map = new ExpiringMap<number>();
    for (let i = 0; i < 1_000; i += 1) map.set(`key-${i}`, i, 5_000, i);

    const kept = Array.from({ length: 1_000 }, (_, i) => map.get(`key-${i}`, 1_000));

    expect(kept).toEqual(Array.from({ length: 1_000 }, (_, i) => i));
  });
});
