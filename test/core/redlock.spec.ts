import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';

import { RedlockClosedError } from '../../lib/core/errors.js';
import { Redlock } from '../../lib/core/redlock.js';
import { deferred, expectInstance, reasonOf, setScene } from './scene.js';
import type { Lock } from '../../lib/core/lock.js';

const ttl = 10_000;

describe('a Redlock', () => {
  it('without nodes is refused', () => {
    expect(() => new Redlock([])).toThrow(
      new RangeError('Expected nodes to name at least one node, got an empty array'),
    );
  });

  it('refuses the same node twice, which would vote twice', () => {
    const { nodes } = setScene();

    expect(() => new Redlock([...nodes, ...nodes.slice(0, 1)])).toThrow(
      new RangeError('Expected nodes to be distinct, got the same node twice'),
    );
  });

  it('needs neither options nor surroundings', async () => {
    const { nodes } = setScene();

    const redlock = new Redlock(nodes);

    expect(redlock.options.ttl).toBe(10_000);
    await redlock.using('r', {}, (lock) => lock.extend());
    await redlock.close();
  });

  it('is not changed by later changes of the array of nodes', () => {
    const { nodes, environment } = setScene();
    const mine = [...nodes];
    const redlock = new Redlock(mine, {}, { environment });

    mine.pop();

    expect(redlock.status().nodes).toHaveLength(3);
  });

  it('tells how it and its nodes are', async () => {
    const { redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const waiting = redlock.acquire('r', ttl);

    const status = redlock.status();

    expect(status).toMatchObject({ isClosed: false, quorum: 2, held: 1, waiting: 1 });
    expect(status.nodes.map(({ name, state }) => [name, state])).toEqual([
      ['node-0', 'up'],
      ['node-1', 'up'],
      ['node-2', 'up'],
    ]);
    await until(lock.release());
    await until(waiting);
  });

  it('tells how the owners of its locks begin, and of no other process', async () => {
    const { redlock, otherProcess, owners, until } = setScene();
    const other = otherProcess();

    const locks = [await until(redlock.acquire('r', ttl)), await until(redlock.acquire('s', ttl))];
    const [owner = ''] = (await owners('r')).map(String);

    const { ownerPrefix } = redlock.status();
    expect(locks.every(({ ownerId }) => ownerId.startsWith(ownerPrefix))).toBe(true);
    expect(owner).toMatch(/^[0-9a-f]{32}:1$/);
    expect(owner.startsWith(ownerPrefix)).toBe(true);
    expect(owner.startsWith(other.status().ownerPrefix)).toBe(false);
    for (const lock of locks) await until(lock.release());
  });

  it('gives every attempt of every process an owner of its own', async () => {
    const { redlock, otherProcess, until } = setScene();
    const owners = new Set<string>();

    for (const process of [redlock, redlock, otherProcess(), otherProcess()]) {
      const lock = await until(process.acquire('r', ttl));
      owners.add(lock.ownerId);
      await until(lock.release());
    }

    expect(owners.size).toBe(4);
  });
});

describe('a failed release', () => {
  it("neither replaces the body's result nor delays it beyond the node timeout", async () => {
    const { environment, redlock, nodes, until } = setScene();
    const startedAt = environment.now();

    const result = await until(
      redlock.using('r', { ttl }, () => {
        for (const node of nodes) node.fail('requestLost');
        return 'the result';
      }),
    );

    expect(result).toBe('the result');
    expect(environment.now() - startedAt).toBeLessThanOrEqual(501);
  });

  it("does not hide the body's error", async () => {
    const { redlock, nodes, rejection } = setScene();
    const own = new Error('the body failed');

    const error = await rejection(
      redlock.using('r', { ttl }, () => {
        for (const node of nodes) node.fail('answerOdd');
        throw own;
      }),
    );

    expect(error).toBe(own);
  });
});

describe('no unhandled rejection', () => {
  const onUnhandled = jest.fn();
  beforeEach(() => void process.on('unhandledRejection', onUnhandled));
  afterEach(() => void process.off('unhandledRejection', onUnhandled));

  it.each([
    'down',
    'requestLost',
    'answerLost',
    'answerOdd',
    'misconfigured',
    'quarantined',
  ] as const)(
    'comes of nodes that all fail (%s) while locks are held, extended, awaited and released',
    async (kind) => {
      const { environment, redlock, nodes, until } = setScene();
      const body = deferred();
      const calls = [
        redlock.using('a', { ttl: 1_000 }, () => body.promise),
        redlock.using('b', { ttl: 1_000, holdAtLeast: 10_000 }, () => 1),
        redlock.acquire('c', 1_000, { watchdog: true }),
        redlock.acquire('c', 1_000, { wait: 3_000 }),
      ].map((call) => call.catch(() => undefined));
      await environment.advance(10);

      for (const node of nodes) node.fail(kind);
      await environment.advance(5_000);
      body.resolve();
      await until(redlock.close());
      await until(Promise.all(calls));
      await environment.advance(60_000);

      expect(onUnhandled).not.toHaveBeenCalled();
      expect(environment.pendingTimers).toBe(0);
    },
  );
});

describe('an idle process', () => {
  it('has no pending timer', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    await until(lock.release());
    await until(redlock.using(['a', 'b'], {}, () => 1));
    await until(redlock.tryAcquire('c', 100));
    await until(redlock.inspect('c'));

    await environment.advance(200);

    expect(environment.pendingTimers).toBe(0);
  });

  it('is not kept alive by a lock that it holds', async () => {
    const { environment, redlock, until } = setScene();

    await until(redlock.acquire('r', ttl, { watchdog: true }));
    await until(redlock.acquire('s', ttl));
    await environment.advance(ttl / 2);

    expect(environment.processHoldingTimers).toBe(0);
  });
});

describe('many processes under random faults', () => {
  it.each([1, 2, 3])('never hold a resource together (seed %i)', async (seed) => {
    const { environment, redlock, otherProcess, nodes, node, until } = setScene({ seed, nodes: 5 });
    const processes = [redlock, otherProcess(), otherProcess()];
    const tokens: number[] = [];
    let holder: Lock | null = null;
    let overlaps = 0;
    for (const each of nodes) each.delay({ request: 1, answer: 2 });

    const run = async (process: Redlock): Promise<void> => {
      for (let round = 0; round < 10; round += 1) {
        const lock = await process.acquire('r', 300, { wait: 30_000 }).catch(() => null);
        if (lock === null) continue;
        if (holder?.isValid === true) overlaps += 1;
        holder = lock;
        tokens.push(lock.fencingToken);
        // To the last moment of validity, or given back early.
        const length = environment.random() < 0.5 ? lock.remaining : 20;
        await new Promise<void>((resolve) => environment.schedule(length, resolve));
        await lock.release();
      }
    };
    const runs = Promise.all(processes.map(run));
    const faults = ['down', 'requestLost', 'answerLost', 'answerOdd', 'answerDoubled'] as const;
    for (let step = 0; step < 300; step += 1) {
      await environment.advance(20);
      const victim = node(Math.floor(environment.random() * 5));
      const fault = faults[Math.floor(environment.random() * faults.length)];
      if (environment.random() < 0.3 && fault !== undefined) victim.fail(fault);
      else for (const each of nodes) each.heal();
    }
    for (const each of nodes) each.heal();
    await until(runs, 600_000);

    expect(overlaps).toBe(0);
    expect(tokens.length).toBeGreaterThan(20);
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
  });
});

describe('a Redlock that is closed', () => {
  it('refuses new calls at once, and says that it is shutting down', async () => {
    const { observer, redlock, node, rejection, until } = setScene();
    await until(redlock.close());

    const errors = [
      await rejection(redlock.acquire('r'), 1),
      await rejection(redlock.tryAcquire('r'), 1),
      await rejection(
        redlock.using('r', {}, () => 1),
        1,
      ),
    ];

    for (const error of errors) {
      expect(expectInstance(error, RedlockClosedError)).toMatchObject({
        resources: ['r'],
        message: expect.stringContaining('the application is shutting down'),
      });
    }
    expect(node(0).calls).toEqual([]);
    expect(observer.refused.mock.calls).toEqual(errors.map((error) => [['r'], error, 0, 0, false]));
    expect(redlock.status().isClosed).toBe(true);
  });

  it('is so before anybody is told, and once: a node that is asked closes it in turn', async () => {
    const { redlock, node, until } = setScene();
    node(0).hang();
    node(1).hang();
    const given = reasonOf(redlock.acquire('r'));
    const late: Promise<unknown>[] = [];
    jest.spyOn(node(2), 'release').mockImplementationOnce(() => {
      late.push(reasonOf(redlock.acquire('late')), redlock.close());
    });
    await until(Promise.resolve());

    const closed = redlock.close();

    expect(await until(given)).toBeInstanceOf(RedlockClosedError);
    expect(await until(late[0] ?? closed)).toBeInstanceOf(RedlockClosedError);
    expect(late[1]).toBe(closed);
  });
});
