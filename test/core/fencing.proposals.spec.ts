import { describe, expect, it } from '@jest/globals';

import { LockTakenError, NoQuorumError } from '../../lib/core/errors.js';
import { lowestTokenOf, TOKENS_PER_BLOCK, TokenSource } from '../../lib/core/fencing.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { TestNode } from '../support/test-node.js';
import type { LockNode } from '../../lib/core/lock-node.js';
import { ensembleOf, expectInstance, reasonOf, setScene } from './scene.js';

const ttl = 10_000;

const minute = 60_000;

const micro = 1_000;

describe('the proposal of a token', () => {
  /** Nodes that have told of their clocks, in ms from the own one, when they were connected. */
  const setUp = (clockOffsets: readonly (number | null)[] = [null, null, null]) => {
    const environment = new SimulatedEnvironment({ wallClock: 5_000_000.5 });
    const nodes = clockOffsets.map((clockOffset, index): LockNode => {
      const node = new TestNode(environment, `node-${index}`);
      return Object.create(node, {
        status: { value: () => ({ ...node.status(), clockOffset }) },
      }) as LockNode;
    });
    return { environment, tokens: new TokenSource(ensembleOf(environment, nodes)) };
  };

  it('is the wall clock in whole microseconds while nothing is known of the nodes', () => {
    const { tokens } = setUp();

    expect(tokens.propose(0, false)).toBe(5_000_000_500);
  });

  it('only grows, also when the wall clock stands still or steps back', () => {
    const { environment, tokens } = setUp();
    const first = tokens.propose(0, false);

    const second = tokens.propose(0, false);
    environment.stepWallClock(-minute);
    const third = tokens.propose(0, false);

    expect([second, third]).toEqual([first + 1, first + 2]);
  });

  it('takes a clock that is told twice as it was told first, when it was nearest', () => {
    const { environment, tokens } = setUp();
    const told = environment.wallClock() * micro + 7_000;
    tokens.learn(0, told);
    environment.block(5);

    tokens.learn(0, told);

    expect(tokens.offsets()[0]).toBe(7);
  });

  it('is above the highest bound that a node has refused with', () => {
    const { tokens } = setUp();

    expect(tokens.propose(9_000_000_000, false)).toBe(9_000_000_001);
  });

  it('stands for itself, or for a whole block of tokens above all before', () => {
    const { tokens } = setUp();
    const first = tokens.propose(5_000_000_510, false);
    const block = tokens.propose(0, true);
    const next = tokens.propose(0, false);
    const beforeBlockEnd = tokens.propose(block + TOKENS_PER_BLOCK - 1, false);

    // 5,000,000,511 would be the last of a block.
    expect(first).toBe(5_000_000_512);
    expect([lowestTokenOf(block), block]).toEqual([5_000_000_544, 5_000_000_575]);
    expect(next).toBe(block + 1);
    expect(beforeBlockEnd).toBe(block + TOKENS_PER_BLOCK + 1);
    expect([first, next, beforeBlockEnd].map(lowestTokenOf)).toEqual([first, next, beforeBlockEnd]);
  });

  it('is no block once a node has refused one, in whose window there may be no room for it', () => {
    const { tokens } = setUp();

    expect(tokens.propose(9_000_000_000, true)).toBe(9_000_000_001);
  });

  it('follows the clock of the nodes', () => {
    const { environment, tokens } = setUp([null]);

    tokens.learn(0, environment.wallClock() * micro + 7_000);

    expect(tokens.propose(0, false)).toBe(5_000_007_500);
    expect(tokens.offsets()).toEqual([7]);
  });

  it('follows the median: one node with a wrong clock does not lead it astray', () => {
    const { environment, tokens } = setUp();
    const now = environment.wallClock() * micro;

    tokens.learn(0, now + 3_000);
    tokens.learn(1, now + 3_600_000_000);
    tokens.learn(2, now - 1_000);

    expect(tokens.propose(0, false)).toBe(5_000_003_500);
  });

  it('follows the clocks that are known, be it one of three', () => {
    const { environment, tokens } = setUp();

    tokens.learn(0, environment.wallClock() * micro + 7_000);

    expect(tokens.propose(0, false)).toBe(5_000_007_500);
  });

  it('follows the clocks that the nodes told of when they were connected', () => {
    const { environment, tokens } = setUp([7, null, 7]);

    const first = tokens.propose(0, false);
    tokens.learn(0, environment.wallClock() * micro + 9_000);

    expect(first).toBe(5_000_007_500);
    expect(tokens.offsets()).toEqual([9, null, 7]);
  });

  it('is aimed at when it arrives: later by what the longest of the last rounds took', () => {
    const { tokens } = setUp();

    tokens.roundTook(20);
    tokens.roundTook(100);
    tokens.roundTook(20);

    // The longest is forgotten by an eighth of the difference.
    expect(tokens.propose(0, false)).toBe(5_000_000_500 + 90_000);
  });

  it('is aimed at no more than half of the skew that clocks are allowed', () => {
    const { tokens } = setUp();

    tokens.roundTook(30_000);

    expect(tokens.propose(0, false)).toBe(5_000_000_500 + 1_000_000);
  });

  it('comes after what the nodes know, but for a minority that no token in reach suits', () => {
    const { tokens } = setUp([0, 0, 0]);
    const near = 5_000_001_000;
    const far = near + minute * micro;
    const boundsOf = (...lows: readonly number[]): readonly number[] =>
      tokens.boundsOf(lows.map((low) => ({ vote: 'stale', isAhead: false, low, nodeTime: low })));

    expect(boundsOf(near, near + 1)).toEqual([near, near + 1]);
    expect(boundsOf(far, near)).toEqual([near]);
    // As when the clocks of most nodes were set back.
    expect(boundsOf(far, near, far + 1)).toEqual([far, near, far + 1]);
  });

  it('that was far ahead of the nodes is forgotten', () => {
    const { tokens } = setUp();
    tokens.propose(9_000_000_000, false);

    tokens.forget();

    expect(tokens.propose(0, false)).toBe(5_000_000_500);
  });

  it('knows no offset of a node that has not answered, and zero where there is none', () => {
    const { environment, tokens } = setUp([null, null]);

    tokens.learn(1, environment.wallClock() * micro);

    expect(tokens.offsets()).toEqual([null, 0]);
  });
});

describe('a stale proposal', () => {
  it('is followed by the next attempt at once, with a higher one', async () => {
    const { environment, redlock, nodes, node, observer, until } = setScene();
    const known = Math.floor(environment.wallClock() * micro) + 500_000;
    for (const each of nodes) each.recordToken(redlock.options.world, 'r', known);
    const startedAt = environment.now();

    const lock = await until(redlock.acquire('r', ttl));

    expect(environment.now()).toBe(startedAt);
    expect(lock.fencingToken).toBe(known + 1);
    expect(observer.acquired).toHaveBeenCalledWith(lock, 0, 2);
    expect(node(0).count('acquire')).toBe(2);
  });

  it('is followed by one above what other calls have proposed meanwhile', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const known = Math.floor(environment.wallClock() * micro);
    for (const each of nodes) each.recordToken(redlock.options.world, 'r', known);

    const calls = ['r', 'other', 'another'].map((name) => redlock.acquire(name, ttl));
    const tokens = (await until(Promise.all(calls))).map(({ fencingToken }) => fencingToken);

    expect(tokens.map((token) => token - known)).toEqual([3, 1, 2]);
  });

  it('is followed at once after a pause too', async () => {
    const { environment, redlock, nodes, observer, until } = setScene();
    for (const each of nodes) each.occupy('r', 50);
    const call = redlock.acquire('r', ttl, { retryDelay: { min: 100, max: 100 } });
    await environment.advance(60);
    const known = Math.floor(environment.wallClock() * micro) + 500_000;
    for (const each of nodes) each.recordToken(redlock.options.world, 'r', known);

    const lock = await until(call);

    expect(lock.fencingToken).toBe(known + 1);
    expect(observer.acquired.mock.calls[0]?.[1]).toBeLessThan(120);
  });

  it('is followed by three more at most, then by the usual pause', async () => {
    const { environment, redlock, nodes, node, rejection } = setScene();
    let known = Math.floor(environment.wallClock() * micro) + 100_000;
    const outbid = (): void => {
      known += 10_000;
      for (const each of nodes) each.recordToken(redlock.options.world, 'r', known);
    };
    outbid();
    node(0).onServed = (operation) => {
      if (operation === 'acquire') outbid();
    };

    const error = expectInstance(
      await rejection(redlock.acquire('r', ttl, { wait: 0 })),
      NoQuorumError,
    );

    expect(node(0).count('acquire')).toBe(4);
    expect(error.message).toMatch(
      /in 4 attempts and \d+ ms: others proposed higher fencing tokens each time/,
    );
    expect(error.message).toMatch(/stale \(it knows a higher fencing token\)/);
    expect(error.votes.filter(({ vote }) => vote === 'stale').length).toBeGreaterThanOrEqual(2);
  });

  it('is followed at once where the others were split, as the next may decide that', async () => {
    const { environment, node, redlock, until } = setScene();
    const known = Math.floor(environment.wallClock() * micro) + 500_000;
    node(0).recordToken(redlock.options.world, 'r', known);
    node(1).occupy('r', 60_000);

    const lock = await until(redlock.tryAcquire('r', ttl));

    expect(lock?.fencingToken).toBe(known + 1);
  });

  it.each([minute, -minute, -2_001])(
    'of a node %d ms off is not followed at once where the others were split: it is taken',
    async (offset) => {
      const { environment, node, redlock, until } = setScene({ clockOffsets: [offset, 0, 0] });
      node(1).occupy('r', 60_000);

      const refused = reasonOf(redlock.acquire('r', ttl, { wait: 0 }));
      await environment.advance(19);
      const counted = node(2).count('acquire');

      expect(counted).toBe(1);
      expect(await until(refused)).toBeInstanceOf(LockTakenError);
    },
  );

  it.each([minute, 3_800])(
    'of most nodes is followed to what suits these, not to a node %d ms ahead',
    async (offset) => {
      const { environment, redlock, nodes, node, until } = setScene({
        clockOffsets: [offset, 0, -1_800],
      });
      for (const each of nodes) each.delay({ request: 1, answer: 1 });
      const known = Math.floor(environment.wallClock() * micro) + 100_000;
      node(1).recordToken(redlock.options.world, 'r', known);
      node(2).recordToken(redlock.options.world, 'r', known);

      const lock = await until(redlock.acquire('r', ttl));

      expect(lock.fencingToken).toBe(known + 1);
      expect(node(1).count('acquire')).toBe(2);
    },
  );

  it('keeps no key of the attempts that failed by it', async () => {
    const { environment, redlock, node, owners, until } = setScene();
    const known = Math.floor(environment.wallClock() * micro) + 500_000;
    node(0).recordToken(redlock.options.world, 'r', known);
    node(1).recordToken(redlock.options.world, 'r', known);

    const lock = await until(redlock.acquire('r', ttl));

    expect(await owners()).toEqual([lock.ownerId, lock.ownerId, lock.ownerId]);
  });
});
