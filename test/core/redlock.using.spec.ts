import { describe, expect, it, jest } from '@jest/globals';

import { LockLostError, LockTakenError } from '../../lib/core/errors.js';
import { deferred, expectInstance, reasonOf, setScene } from './scene.js';
import type { Lock } from '../../lib/core/lock.js';

const ttl = 10_000;

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
