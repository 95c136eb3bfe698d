import { describe, expect, it, jest } from '@jest/globals';

import { LockLostError, RedlockClosedError } from '../../lib/core/errors.js';
import { deferred, expectInstance, reasonOf, setScene, watch } from './scene.js';

const ttl = 10_000;

describe('a shutdown', () => {
  it('of an idle process is over at once, and a second call waits for the first', async () => {
    const { environment, redlock } = setScene();

    const first = redlock.close();
    const second = redlock.close();
    const isOver = watch(first);
    await environment.settle();

    expect(second).toBe(first);
    expect(isOver()).toBe(true);
    expect(environment.pendingTimers).toBe(0);
  });

  it('rejects those who queue and those who try, each with its own resources', async () => {
    const { environment, redlock, otherProcess, until } = setScene();
    await until(otherProcess().acquire('r', ttl));
    const trying = reasonOf(redlock.acquire('r', ttl));
    const queued = reasonOf(redlock.acquire(['q', 'r'], ttl));
    await environment.advance(5);

    await until(redlock.close(), 1);

    const [tryingError, queuedError] = await Promise.all([trying, queued]);
    expect(expectInstance(tryingError, RedlockClosedError).resources).toEqual(['r']);
    expect(expectInstance(queuedError, RedlockClosedError).message).toContain(
      'Could not lock "q", "r": the application is shutting down and grants no more locks',
    );
    expect(environment.processHoldingTimers).toBe(0);
  });

  it('leaves no key of an attempt under way', async () => {
    const { environment, redlock, nodes, owners, until } = setScene();
    for (const node of nodes) node.delay({ request: 5, answer: 5 });
    const call = reasonOf(redlock.acquire('r', ttl));
    await environment.advance(7);

    void redlock.close();
    await environment.advance(20);

    expect(await until(call)).toBeInstanceOf(RedlockClosedError);
    expect(await owners()).toEqual([null, null, null]);
  });

  it('gives back a lock that was granted in the very same moment', async () => {
    for (let steps = 0; steps < 20; steps += 1) {
      const { environment, redlock, node, owners } = setScene({ nodes: 1 });
      const closeAfter = (left: number): void => {
        if (left === 0) void redlock.close();
        else queueMicrotask(() => closeAfter(left - 1));
      };
      node(0).onServed = (operation) => {
        if (operation === 'acquire') closeAfter(steps);
      };

      const outcome = await redlock
        .using('r', { ttl }, ({ isValid }) => (isValid ? 'ran' : 'ran without the lock'))
        .catch((error: unknown) => error);
      await environment.advance(1);

      if (outcome !== 'ran') expect(outcome).toBeInstanceOf(RedlockClosedError);
      expect(await owners()).toEqual([null]);
    }
  });

  it('waits for running bodies, and extends their locks meanwhile', async () => {
    const { environment, redlock, owners, until } = setScene();
    const body = deferred<string>();
    const call = redlock.using('r', { ttl: 1_000 }, () => body.promise);
    await environment.settle();

    const closing = redlock.close();
    const isClosed = watch(closing);
    await environment.advance(9_000);
    const ownersMeanwhile = await owners();
    const wasClosedEarly = isClosed();
    body.resolve('done');

    expect(await until(call)).toBe('done');
    await until(closing, 1);
    expect(ownersMeanwhile).not.toContain(null);
    expect(wasClosedEarly).toBe(false);
    expect(await owners()).toEqual([null, null, null]);
    expect(environment.pendingTimers).toBe(0);
  });

  it('waits for locks that were acquired by hand as well', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    const closing = redlock.close();
    const isClosed = watch(closing);
    await environment.advance(1_000);
    const wasClosedEarly = isClosed();
    const timersMeanwhile = environment.processHoldingTimers;

    await until(lock.release());

    await until(closing, 1);
    expect(wasClosedEarly).toBe(false);
    expect(timersMeanwhile).toBe(1);
  });

  it('waits for all of them, not for the first', async () => {
    const { environment, redlock, until } = setScene();
    const [first, second] = await until(
      Promise.all([redlock.acquire('a', ttl), redlock.acquire('b', ttl)]),
    );
    const closing = redlock.close();
    const isClosed = watch(closing);

    await until(first.release());
    await environment.advance(10);
    const wasClosedEarly = isClosed();
    await until(second.release());

    await until(closing, 1);
    expect(wasClosedEarly).toBe(false);
  });

  it('aborts the signals of bodies that are still running after shutdownTimeout', async () => {
    const { environment, redlock, owners, until } = setScene({
      options: { shutdownTimeout: 3_000 },
    });
    const onAbort = jest.fn();
    const call = reasonOf(
      redlock.using('r', { ttl }, async ({ signal }) => {
        await new Promise<void>((resolve) =>
          signal.addEventListener('abort', () => {
            onAbort();
            resolve();
          }),
        );
        return 'stopped early';
      }),
    );
    await environment.settle();
    const closing = redlock.close();

    await environment.advance(2_999);
    const abortsBefore = onAbort.mock.calls.length;
    await environment.advance(1);

    expect(abortsBefore).toBe(0);
    expect(onAbort).toHaveBeenCalledTimes(1);
    expect(expectInstance(await until(call), LockLostError)).toMatchObject({
      reason: 'closed',
      result: 'stopped early',
      message: expect.stringContaining('the application shut down and shutdownTimeout was spent'),
    });
    await until(closing, 1);
    expect(await owners()).toEqual([null, null, null]);
  });

  it('waits a second more at most for bodies that ignore their signal, and keeps their keys', async () => {
    const { environment, redlock, owners, until } = setScene({
      options: { shutdownTimeout: 500 },
    });
    const body = deferred();
    const call = reasonOf(redlock.using('r', { ttl }, () => body.promise));
    await environment.settle();
    const startedAt = environment.now();

    await until(redlock.close());
    const closedAfter = environment.now() - startedAt;
    const ownersThen = await owners();
    body.resolve();

    expect(closedAfter).toBeGreaterThanOrEqual(1_500);
    expect(closedAfter).toBeLessThanOrEqual(1_502);
    expect(ownersThen).not.toContain(null);
    expect(await until(call)).toBeInstanceOf(LockLostError);
    expect(await owners()).toEqual([null, null, null]);
  });

  it('does not wait for locks by hand after it has aborted them', async () => {
    const { environment, redlock, until } = setScene({ options: { shutdownTimeout: 100 } });
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    const startedAt = environment.now();

    await until(redlock.close());

    expect(environment.now() - startedAt).toBeLessThanOrEqual(101);
    expect(lock.signal.aborted).toBe(true);
    expect(expectInstance(lock.signal.reason, LockLostError).reason).toBe('closed');
  });
});

describe('a lock that is lost before anybody has it', () => {
  it('is told as lost, and leaves its place to the next call', async () => {
    const { environment, redlock, node, observer, until } = setScene();
    // Between the second answer and the third the application takes longer than the ttl.
    node(2).onServed = () => {
      node(2).onServed = () => undefined;
      queueMicrotask(() => environment.block(200));
    };

    const lock = await until(redlock.acquire('r', 100));
    const timersThen = environment.pendingTimers;
    const next = redlock.acquire('r', 100, { wait: 20_000 });

    expect(lock.isValid).toBe(false);
    expect(observer.lost).toHaveBeenCalledTimes(1);
    expect(redlock.status().held).toBe(0);
    expect(timersThen).toBe(0);
    await until(next, 1_000);
  });
});

describe('a lock that is lost while its body runs', () => {
  it('is lost for the first reason, and told once, also where a shutdown aborts the body', async () => {
    const { environment, redlock, observer, until } = setScene({
      options: { shutdownTimeout: 10 },
    });
    const body = deferred();
    const using = reasonOf(redlock.using('r', { ttl, watchdog: false }, () => body.promise));
    await environment.advance(ttl);

    await until(redlock.close());
    body.resolve();

    expect(expectInstance(await until(using), LockLostError).reason).toBe('expired');
    expect(observer.lost).toHaveBeenCalledTimes(1);
  });

  it('is not counted as held, and a shutdown waits for the body all the same', async () => {
    const { environment, redlock, until } = setScene();
    const body = deferred();
    const using = reasonOf(redlock.using('r', { ttl, watchdog: false }, () => body.promise));
    await environment.advance(1);
    const heldBefore = redlock.status().held;

    await environment.advance(ttl);
    const isClosed = watch(redlock.close());
    await environment.advance(1);

    expect([heldBefore, redlock.status().held]).toEqual([1, 0]);
    expect(isClosed()).toBe(false);
    body.resolve();
    await until(using);
    await environment.settle();
    expect(isClosed()).toBe(true);
  });
});

describe('a lock that was acquired by hand and lost', () => {
  it('is not counted as held any more, though nobody may ever release it', async () => {
    const { environment, redlock, until } = setScene();
    await until(redlock.acquire('r', ttl));

    await environment.advance(2 * ttl);

    expect(redlock.status().held).toBe(0);
    await until(redlock.close(), 1);
  });

  it('may be released later, which deletes what is left of it', async () => {
    const { environment, redlock, node, owners, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    node(0).restart();
    node(1).restart();
    await environment.advance(ttl / 2);
    const left = await owners();

    await until(lock.release());

    expect(left).toContain(lock.ownerId);
    expect(await owners()).toEqual([null, null, null]);
  });
});
