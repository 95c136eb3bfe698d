import { describe, expect, it } from '@jest/globals';

import { NoQuorumError } from '../../lib/core/errors.js';
import { Redlock } from '../../lib/core/redlock.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { FaultyNode } from '../../lib/testing/faulty-node.js';
import { expectInstance, setScene } from './scene.js';

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

  it.each([60_000, -60_000, -2_001])(
    'hide no holder: not one that is %d ms off, though another answers last',
    async (offset) => {
      const { node, redlock, until } = setScene({ clockOffsets: [offset, 0, 0] });
      for (const index of [1, 2]) node(index).occupy('r', 60_000, 'holder');
      node(2).delay(5);

      expect(await until(redlock.tryAcquire('r', ttl))).toBeNull();
      expect(node(2).count('acquire')).toBe(1);
    },
  );

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
