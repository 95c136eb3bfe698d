import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';

import { LockLostError, LockTakenError, RedlockClosedError } from '../../lib/core/errors.js';
import { Redlock } from '../../lib/core/redlock.js';
import { untilCollected } from '../support/collect-garbage.js';
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

describe('using', () => {
  it('gives what the body returns, and releases', async () => {
    const { environment, redlock, owners, observer, until } = setScene();
    const seen: Lock[] = [];

    const result = await until(
      redlock.using('r', {}, (lock) => {
        seen.push(lock);
        return lock.isValid ? 42 : 0;
      }),
    );

    expect(result).toBe(42);
    expect(seen.map(({ isValid }) => isValid)).toEqual([false]);
    expect(observer.released.mock.calls).toEqual([[seen[0], 0]]);
    expect(await owners()).toEqual([null, null, null]);
    expect(environment.pendingTimers).toBe(0);
  });

  it('holds the lock until what the body returned has settled, beyond the ttl', async () => {
    const { environment, redlock, owners, until } = setScene();
    const body = deferred<string>();
    const call = redlock.using('r', { ttl: 1_000 }, () => body.promise);

    await environment.advance(10_000);
    const ownersBefore = await owners();
    body.resolve('done');

    expect(await until(call)).toBe('done');
    expect(ownersBefore).not.toContain(null);
    expect(await owners()).toEqual([null, null, null]);
  });

  it('takes a ttl alone as an option', async () => {
    const { redlock, node, until } = setScene();

    const lifetime = await until(
      redlock.using('r', { ttl: 1_000 }, () => node(0).keyLifetime('r')),
    );

    expect(lifetime).toBe(1_000);
  });

  it('takes its options as an object too', async () => {
    const { redlock, until } = setScene();

    const remaining = await until(
      redlock.using('r', { ttl: 2_000, watchdog: false }, (lock) => lock.remaining),
    );

    expect(remaining).toBeCloseTo(1_978, 6);
  });

  it('without the watchdog loses the lock of a body that lasts longer than the ttl', async () => {
    const { environment, redlock, until } = setScene();
    const body = deferred();
    const call = reasonOf(redlock.using('r', { ttl: 1_000, watchdog: false }, () => body.promise));

    await environment.advance(2_000);
    body.resolve();

    expect(expectInstance(await until(call), LockLostError).reason).toBe('expired');
  });

  it.each<[string, () => unknown]>([
    [
      'throws',
      () => {
        throw new TypeError('the body failed');
      },
    ],
    ['rejects', () => Promise.reject(new TypeError('the body failed'))],
  ])("of a body that %s gives the body's own error, the very same object", async (_how, fail) => {
    const { redlock, owners, rejection } = setScene();
    let thrown: unknown;

    const error = await rejection(
      redlock.using('r', { ttl }, async () => {
        try {
          return await fail();
        } catch (reason) {
          thrown = reason;
          throw reason;
        }
      }),
    );

    expect(error).toBe(thrown);
    expect(await owners()).toEqual([null, null, null]);
  });

  it.each([undefined, null, 'a string'])(
    'passes on even %p when that is thrown',
    async (thrown) => {
      const { redlock, rejection } = setScene();

      const error = await rejection(
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- as users do
        redlock.using('r', { ttl }, () => Promise.reject(thrown)),
      );

      expect(error).toBe(thrown);
    },
  );

  it('does not run the body when the resource is taken', async () => {
    const { redlock, otherProcess, rejection, until } = setScene();
    await until(otherProcess().acquire('r', ttl));
    const body = jest.fn();

    const error = await rejection(redlock.using('r', { wait: 0 }, body));

    expect(error).toBeInstanceOf(LockTakenError);
    expect(body).not.toHaveBeenCalled();
  });

  it('says in the stack of a refusal who asked', async () => {
    const { redlock, otherProcess, rejection, until } = setScene();
    await until(otherProcess().acquire('r', ttl));
    const sellTicket = async (): Promise<void> => {
      await redlock.using('r', { wait: 100 }, () => Promise.resolve());
    };
    const reserveSeat = async (): Promise<void> => {
      await (await redlock.acquire('r', ttl, { wait: 0 })).release();
    };

    const stacks = [await rejection(sellTicket()), await rejection(reserveSeat())].map(
      (error) => expectInstance(error, LockTakenError).stack,
    );

    expect(stacks).toEqual([
      expect.stringMatching(/^LockTakenError: Could not lock "r"[^]* at (async )?sellTicket /),
      expect.stringMatching(/^LockTakenError: Could not lock "r"[^]* at (async )?reserveSeat /),
    ]);
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

describe('a lock that is lost while its body runs', () => {
  it("makes a body that succeeds reject, with the body's result on the error", async () => {
    const { environment, redlock, nodes, owners, until } = setScene();
    const body = deferred<string>();
    const call = reasonOf(redlock.using('r', { ttl }, () => body.promise));
    await environment.settle();
    for (const node of nodes) node.restart();
    await environment.advance(ttl / 2);

    body.resolve('half done');

    expect(expectInstance(await until(call), LockLostError)).toMatchObject({
      code: 'LOCK_LOST',
      reason: 'revoked',
      result: 'half done',
      resources: ['r'],
    });
    expect(await owners()).toEqual([null, null, null]);
  });

  it("leaves the body's own error as it is", async () => {
    const { environment, redlock, nodes, until } = setScene();
    const own = new Error('the body gave up');
    const call = reasonOf(
      redlock.using('r', { ttl }, async ({ signal }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        throw own;
      }),
    );
    await environment.settle();
    for (const node of nodes) node.restart();

    await environment.advance(ttl / 2);

    expect(await until(call)).toBe(own);
  });

  it('makes it reject also when only the last moment was not covered', async () => {
    const { environment, redlock, rejection } = setScene();

    const error = await rejection(
      redlock.using('r', { ttl }, () => {
        environment.block(ttl);
        return 'too late';
      }),
    );

    expect(expectInstance(error, LockLostError)).toMatchObject({
      reason: 'expired',
      result: 'too late',
    });
  });

  it('makes it reject also when the body has released it by hand after that', async () => {
    const { environment, redlock, until } = setScene();
    const body = deferred<string>();
    const call = reasonOf(
      redlock.using('r', { ttl }, async (lock) => {
        const result = await body.promise;
        await lock.release();
        return result;
      }),
    );
    await environment.settle();
    environment.block(2 * ttl);

    body.resolve('unprotected');

    expect(expectInstance(await until(call), LockLostError).result).toBe('unprotected');
  });

  it('passes when the body itself had released it before', async () => {
    const { environment, redlock, node, until } = setScene();
    const body = deferred<string>();
    const call = redlock.using('r', { ttl }, async (lock) => {
      await lock.release();
      return body.promise;
    });
    await environment.advance(3 * ttl);

    body.resolve('fine');

    expect(await until(call)).toBe('fine');
    expect(node(0).count('release')).toBe(1);
  });
});

describe('a lock that is lost before its body begins', () => {
  // As when one call of the nodes grants several locks, and the first body computes for long.
  it('runs no body, and is given back', async () => {
    const { environment, redlock, observer, owners, until } = setScene();
    const begun: string[] = [];
    const body = (name: string) => () => {
      begun.push(name);
      environment.block(ttl);
    };

    const first = reasonOf(redlock.using('r', { ttl }, body('first')));
    const second = reasonOf(redlock.using('s', { ttl }, body('second')));

    expect(expectInstance(await until(second), LockLostError)).toMatchObject({
      reason: 'expired',
      resources: ['s'],
      result: undefined,
    });
    expect(begun).toEqual(['first']);
    expect(observer.lost).toHaveBeenCalledTimes(2);
    expect(await owners('s')).toEqual([null, null, null]);
    await until(first);
  });
});

describe('holdAtLeast', () => {
  const options = { ttl: 2_000, holdAtLeast: 60_000 };

  it('keeps the resource taken although the body is done', async () => {
    const { environment, redlock, otherProcess, owners, until } = setScene();

    const result = await until(
      redlock.using('r', options, () => 'done at once'),
      1,
    );
    await environment.advance(59_000);
    const other = await until(otherProcess().tryAcquire('r', ttl));
    await environment.advance(1_100);

    expect(result).toBe('done at once');
    expect(other).toBeNull();
    expect(await owners()).toEqual([null, null, null]);
    expect(environment.pendingTimers).toBe(0);
  });

  it('lets replicas that each count an interval from their start run once in each', async () => {
    const { environment, otherProcess } = setScene();
    const runs: number[] = [];
    const replicas = [0, 3_000, 6_000].map((offset) => ({ redlock: otherProcess(), offset }));
    const fire = (redlock: Redlock): void => {
      const run = (): unknown => runs.push(Math.round(environment.now() / 1_000));
      redlock.using('r', { wait: 0, holdAtLeast: 9_500 }, run).catch(() => undefined);
    };

    for (let second = 0; second < 60; second += 1) {
      const due = replicas.filter(({ offset }) => (second * 1_000 - offset) % 10_000 === 0);
      for (const { redlock } of due) fire(redlock);
      await environment.advance(1_000);
    }

    const [first = 0] = runs;
    expect(runs.map((second) => second - first)).toEqual([0, 10, 20, 30, 40, 50]);
  });

  it('has the lock extended also where the watchdog is off while the body runs', async () => {
    const { environment, redlock, owners, until } = setScene();
    const body = deferred();
    const call = redlock.using('r', { ...options, watchdog: false }, () => body.promise);
    await environment.advance(1_000);
    body.resolve();
    await until(call);

    await environment.advance(50_000);

    expect(await owners()).not.toContain(null);
  });

  it('leaves nothing in memory when it is over', async () => {
    const { environment, otherProcess, until } = setScene();
    const redlock = otherProcess();
    const come = (): Promise<WeakRef<Lock>> =>
      until(redlock.using('r', { ttl, holdAtLeast: 50 }, (lock) => new WeakRef(lock)));

    const left = await come();
    await environment.advance(100);

    await untilCollected(left);
  });

  it('keeps no process alive', async () => {
    const { environment, redlock, until } = setScene();

    await until(redlock.using('r', options, () => 1));

    expect(environment.pendingTimers).toBeGreaterThan(0);
    expect(environment.processHoldingTimers).toBe(0);
  });

  it('that is over when the body ends releases at once', async () => {
    const { environment, redlock, owners, until } = setScene();
    const body = deferred();
    const call = redlock.using('r', { ttl, holdAtLeast: 1_000 }, () => body.promise);
    await environment.advance(1_001);

    body.resolve();
    await until(call);

    expect(await owners()).toEqual([null, null, null]);
  });

  it('applies to a body that failed too', async () => {
    const { redlock, owners, rejection } = setScene();

    await rejection(redlock.using('r', options, () => Promise.reject(new Error('failed'))));

    expect(await owners()).not.toContain(null);
  });

  it('does not keep a lock that was lost', async () => {
    const { environment, redlock, rejection, owners } = setScene();

    await rejection(
      redlock.using('r', options, () => {
        environment.block(2_500);
      }),
    );

    expect(await owners()).toEqual([null, null, null]);
    expect(environment.pendingTimers).toBe(0);
  });

  it('counts as held, and wakes the next in the process when it is over', async () => {
    const { environment, redlock, until } = setScene();
    await until(redlock.using('r', options, () => 1));
    const retryDelay = { min: 50_000, max: 50_000 };
    const waiting = redlock.acquire('r', ttl, { wait: 300_000, retryDelay });
    const heldMeanwhile = redlock.status().held;

    await environment.advance(60_001);

    expect(heldMeanwhile).toBe(1);
    expect((await until(waiting, 1)).isValid).toBe(true);
  });

  it('whose keys are lost meanwhile is told as lost, once', async () => {
    const { environment, redlock, nodes, observer, until } = setScene();
    await until(redlock.using('r', options, () => 1));
    for (const node of nodes) node.restart();

    await environment.advance(61_000);

    expect(observer.lost).toHaveBeenCalledTimes(1);
    expect(redlock.status().held).toBe(0);
    expect(environment.pendingTimers).toBe(0);
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
