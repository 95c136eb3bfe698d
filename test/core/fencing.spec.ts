import { describe, expect, it } from '@jest/globals';

import { LockTakenError, NoQuorumError } from '../../lib/core/errors.js';
import { lowestTokenOf, TOKENS_PER_BLOCK, TokenSource } from '../../lib/core/fencing.js';
import { silentObserver } from '../../lib/core/observer.js';
import { resolveOptions } from '../../lib/core/options.js';
import { majorityOf } from '../../lib/core/quorum.js';
import { Redlock } from '../../lib/core/redlock.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { TestNode } from '../support/test-node.js';
import { FaultyNode } from '../../lib/testing/faulty-node.js';
import type { LockNode } from '../../lib/core/lock-node.js';
import { expectInstance, reasonOf, setScene } from './scene.js';

const ttl = 10_000;
const minute = 60_000;
const micro = 1_000;

describe('an attempt that too few nodes answered', () => {
  it('does not aim later tokens at when its timeout was over', async () => {
    const { environment, redlock, nodes, rejection, until } = setScene();
    for (const node of nodes) node.hang();
    await rejection(redlock.acquire('r', ttl, { wait: 0 }));
    for (const node of nodes) node.heal();
    await environment.advance(1_000);

    const lock = await until(redlock.acquire('r', ttl));

    expect(lock.fencingToken).toBeLessThan((environment.wallClock() + 100) * micro);
  });
});

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
    const tokens = new TokenSource({
      nodes,
      environment,
      quorum: majorityOf(nodes.length),
      options: resolveOptions({}, nodes.length),
      observer: silentObserver,
    });
    return { environment, tokens };
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

describe('fencing tokens', () => {
  it('grow from grant to grant, over processes', async () => {
    const { redlock, otherProcess, until } = setScene();
    const processes = [redlock, otherProcess(), otherProcess()];
    const tokens: number[] = [];

    for (let round = 0; round < 30; round += 1) {
      const process = processes[round % 3] ?? redlock;
      const lock = await until(process.acquire('r', ttl));
      tokens.push(lock.fencingToken);
      await until(lock.release());
    }

    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
    expect(tokens.every(Number.isSafeInteger)).toBe(true);
  });

  it('grow although the next client has a wall clock that is behind', async () => {
    const { environment, redlock, otherProcess, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await until(lock.release());
    environment.stepWallClock(-1_500);

    const next = await until(otherProcess().acquire('r', ttl, { wait: 0 }));

    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(nodes.length).toBe(3);
  });

  it('are had by a client far away, of a resource that one nearby takes all the time', async () => {
    const { environment, nodes, redlock, until } = setScene();
    const farNodes = nodes.map((node) => {
      const far = new FaultyNode({ node, environment });
      far.delay({ request: 50, answer: 50 });
      return far;
    });
    const far = new Redlock(farNodes, {}, { environment });
    const neighbour = { isBusy: true };
    const hurry = async (): Promise<void> => {
      while (neighbour.isBusy) {
        await (await redlock.acquire('r', ttl)).release();
        await new Promise<void>((resolve) => void environment.startTimer(1, resolve, true));
      }
    };
    const hurrying = hurry();

    for (let call = 0; call < 20; call += 1) {
      const lock = await until(far.acquire('r', ttl));
      await until(lock.release());
    }
    neighbour.isBusy = false;
    await until(hurrying);

    // The first is refused as stale until it is known how far away the nodes are.
    expect(farNodes[0]?.count('acquire')).toBeLessThanOrEqual(25);
  });

  it('are not asked for where fencing is off', async () => {
    const { redlock, node, until } = setScene({ options: { fencing: false } });

    await until(redlock.acquire('r', ttl));

    expect(node(0).calls[0]?.request?.token).toBe(0);
  });

  it('of one attempt are the same at all nodes', async () => {
    const { redlock, nodes, until } = setScene();

    const lock = await until(redlock.acquire('r', ttl));

    const proposed = nodes.map((node) => node.calls[0]?.request?.token);
    expect(new Set(proposed)).toEqual(new Set([lock.fencingToken]));
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

  it('of a node far ahead is not followed at once where the others were split: it is taken', async () => {
    const { environment, node, redlock, until } = setScene({ clockOffsets: [minute, 0, 0] });
    node(1).occupy('r', 60_000);

    const refused = reasonOf(redlock.acquire('r', ttl, { wait: 0 }));
    await environment.advance(19);
    const counted = node(2).count('acquire');

    expect(counted).toBe(1);
    expect(await until(refused)).toBeInstanceOf(LockTakenError);
  });

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

describe("a client's wall clock", () => {
  const client = (environment: SimulatedEnvironment, offset: number): SimulatedEnvironment =>
    Object.create(environment, {
      now: { value: () => environment.now() },
      wallClock: { value: () => environment.wallClock() + offset },
      startTimer: { value: environment.startTimer.bind(environment) },
      stopTimer: { value: environment.stopTimer.bind(environment) },
      random: { value: environment.random.bind(environment) },
      randomId: { value: environment.randomId.bind(environment) },
    }) as SimulatedEnvironment;

  it.each([-minute, minute])('that is %d ms off costs one more attempt, once', async (offset) => {
    const { environment, nodes, node, until } = setScene();
    const redlock = new Redlock(nodes, {}, { environment: client(environment, offset) });

    const lock = await until(redlock.acquire('r', ttl));
    const attemptsAtFirst = node(0).count('acquire');
    await until(lock.release());
    await until(redlock.acquire('r', ttl));

    expect(attemptsAtFirst).toBe(2);
    expect(node(0).count('acquire')).toBe(3);
  });

  it.each([-minute, minute])(
    'that is %d ms off gets the lock also with `wait: 0` over a real network',
    async (offset) => {
      const { environment, nodes, until } = setScene();
      for (const node of nodes) node.delay({ request: 3, answer: 3 });
      const redlock = new Redlock(nodes, {}, { environment: client(environment, offset) });

      const outcome = await until(
        redlock.acquire('r', ttl, { wait: 0 }).catch((error: unknown) => String(error)),
      );

      expect(outcome).toMatchObject({ isValid: true });
    },
  );

  it('that was ahead and has been corrected gets locks again', async () => {
    const { environment, redlock, until } = setScene();
    environment.stepWallClock(minute);
    const ahead = await until(redlock.acquire('r', ttl));
    await until(ahead.release());

    environment.stepWallClock(-minute);
    const lock = await until(redlock.acquire('r', ttl));

    expect(lock.isValid).toBe(true);
    expect(lock.fencingToken).toBeGreaterThan(ahead.fencingToken);
  });

  it('that is set forward while no time passes, as by fake timers, costs no pause', async () => {
    const environment = new SimulatedEnvironment();
    const node = new FaultyNode({ environment });
    const redlock = new Redlock([node], {}, { environment });
    const before = await redlock.acquire('r', ttl);
    await before.release();

    environment.stepWallClock(minute);
    const lock = await redlock.acquire('r', ttl, { wait: 0 });

    expect(lock.isValid).toBe(true);
    expect(lock.fencingToken).toBeGreaterThan(before.fencingToken);
  });
});

describe('nodes whose clocks differ', () => {
  it('by less than the allowance grant locks', async () => {
    const { redlock, until } = setScene({ clockOffsets: [0, 900, -900] });

    const lock = await until(redlock.acquire('r', ttl));

    expect(lock.isValid).toBe(true);
  });

  it('by more than that are told with each offset', async () => {
    const { nodes, redlock, rejection } = setScene({ clockOffsets: [0, 10_000, -10_000] });
    for (const node of nodes) node.delay({ request: 1 });

    const error = expectInstance(
      await rejection(redlock.acquire('r', ttl, { wait: 500 })),
      NoQuorumError,
    );

    expect(error.message).toContain(
      'the clocks of the nodes differ by more than 2000 ms, so no fencing token suits a quorum; ' +
        "synchronise them (off this machine's clock by: node-0 0 ms, node-1 10000 ms, node-2 -10000 ms)",
    );
    expect(error.message).toContain('the fencing token is ahead of its clock');
  });

  it('are not blamed where no token is asked for', async () => {
    const clockOffsets = [0, 10_000, -10_000];
    const { redlock, node, rejection } = setScene({ clockOffsets, options: { fencing: false } });
    for (const [index, clockOffset] of clockOffsets.entries()) {
      const status = { ...node(index).status(), clockOffset };
      Object.defineProperty(node(index), 'status', { value: () => status });
      if (index > 0) node(index).refuse();
    }

    const error = expectInstance(
      await rejection(redlock.acquire('r', ttl, { wait: 0 })),
      NoQuorumError,
    );

    expect(error.message).toContain('fewer than 2 of 3 nodes could vote');
  });

  it('are not blamed for an outage because one of the nodes was heard late', async () => {
    const { environment, redlock, node, nodes, rejection, until } = setScene();
    node(0).delay(3_000);
    await until(redlock.acquire('r', ttl));
    await environment.advance(3_000);
    for (const each of nodes) each.refuse();

    const error = expectInstance(
      await rejection(redlock.acquire('s', ttl, { wait: 0 })),
      NoQuorumError,
    );

    expect(error.message).toContain('fewer than 2 of 3 nodes could vote');
  });

  it('and of which one has never answered are told with a question mark', async () => {
    const { redlock, node, rejection } = setScene({ clockOffsets: [0, 10_000, 0] });
    node(2).refuse();
    const status = { ...node(2).status(), clockOffset: null };
    Object.defineProperty(node(2), 'status', { value: () => status });

    const error = expectInstance(
      await rejection(redlock.acquire('r', ttl, { wait: 0 })),
      NoQuorumError,
    );

    expect(error.message).toContain('by: node-0 0 ms, node-1 10000 ms, node-2 ? ms)');
  });
});
