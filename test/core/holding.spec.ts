import { describe, expect, it, jest } from '@jest/globals';

import { LockLostError, NoQuorumError } from '../../lib/core/errors.js';
import { deferred, expectInstance, reasonOf, setScene } from './scene.js';

const ttl = 10_000;

const validity = ttl * 0.99 - 2;

const watched = { watchdog: true };

describe('a fresh lock', () => {
  it('is valid for the ttl less drift and guard, counted from before the first request', async () => {
    const { environment, redlock, nodes, until } = setScene();
    for (const node of nodes) node.delay({ request: 10, answer: 10 });

    const lock = await until(redlock.acquire('r', ttl));

    expect(lock.remaining).toBeCloseTo(validity - 20, 6);
    await environment.advance(lock.remaining - 0.01);
    expect(lock.isValid).toBe(true);
    await environment.advance(0.02);
    expect(lock.isValid).toBe(false);
  });

  it('is never valid for longer than a quorum of nodes keeps its key', async () => {
    const { environment, redlock, nodes, until } = setScene();
    for (const node of nodes) node.delay({ request: 40, answer: 3 });

    const lock = await until(redlock.acquire('r', ttl));

    const lifetimes = await Promise.all(nodes.map((node) => node.keyLifetime('r')));
    expect(Math.min(...lifetimes)).toBeGreaterThan(lock.remaining);
    expect(environment.pendingTimers).toBeGreaterThan(0);
  });

  it('gains the lease of a node that grants after the quorum was reached', async () => {
    const { environment, redlock, node, until } = setScene();
    node(2).delay({ answer: 50 });
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(60);
    node(0).restart();

    await until(lock.extend());

    expect(lock.isValid).toBe(true);
  });

  it('expires on the millisecond although nobody asks', async () => {
    const { environment, redlock, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const onAbort = jest.fn();
    lock.signal.addEventListener('abort', onAbort);

    await environment.advance(validity - 2);
    const callsBefore = onAbort.mock.calls.length;
    await environment.advance(2);

    expect(callsBefore).toBe(0);
    expect(onAbort).toHaveBeenCalledTimes(1);
    expect(observer.lost).toHaveBeenCalledWith(lock, 'expired', expect.any(Number));
    expect(environment.pendingTimers).toBe(0);
  });

  it('expires in time where its validity ends between two milliseconds', async () => {
    const { environment, redlock, until } = setScene();
    const startedAt = environment.now();
    const lock = await until(redlock.acquire('r', 150));
    const heldFor: number[] = [];
    lock.signal.addEventListener('abort', () => heldFor.push(environment.now() - startedAt));

    await environment.advance(150);

    expect(heldFor).toEqual([146]); // of 146.5
  });
});

describe('the watchdog', () => {
  it('extends every third of the ttl, so that the lock outlives its ttl', async () => {
    const { environment, redlock, node, owners, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));

    await environment.advance(10 * ttl);

    expect(lock.isValid).toBe(true);
    expect(lock.remaining).toBeGreaterThan(validity - ttl / 3 - 5);
    expect(await owners()).toEqual([lock.ownerId, lock.ownerId, lock.ownerId]);
    expect(node(0).count('extend')).toBe(30);
  });

  it('does not extend a lock that was acquired by hand with a ttl', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    await environment.advance(ttl);

    expect(node(0).count('extend')).toBe(0);
    expect(lock.isValid).toBe(false);
  });

  it('keeps the fencing token', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    const token = lock.fencingToken;

    await environment.advance(3 * ttl);

    expect(lock.fencingToken).toBe(token);
  });
});

describe('a lock whose watchdog had given up', () => {
  it('is extended again once its holder extends it', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    for (const node of nodes) node.refuse('extend');
    await environment.advance(0.95 * ttl);

    for (const node of nodes) node.heal();
    await until(lock.extend());
    await environment.advance(3 * ttl);

    expect(lock.isValid).toBe(true);
  });

  it('is extended again once late answers to two rounds make up a quorum', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    node(0).hang();
    node(1).fail('requestLost', 'extend');
    node(2).refuse('extend');
    await environment.advance(0.8 * ttl);
    node(2).heal();
    await environment.advance(0.15 * ttl);

    node(0).heal();
    node(1).heal();
    await environment.advance(3 * ttl);

    expect(lock.isValid).toBe(true);
  });
});

describe('a lost lock', () => {
  it('is not brought back by the next extension: loss, not a new acquisition', async () => {
    const { environment, redlock, nodes, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    for (const node of nodes) node.restart();

    await environment.advance(ttl / 3 + 10);
    const isValidAfterRound = lock.isValid;
    await environment.advance(5 * ttl);

    expect(isValidAfterRound).toBe(false);
    expect(lock.isValid).toBe(false);
    expect(observer.lost.mock.calls).toEqual([[lock, 'revoked', expect.any(Number)]]);
  });

  it("never overwrites another owner's key", async () => {
    const { environment, redlock, nodes, owners, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    for (const node of nodes) {
      node.restart();
      node.occupy('r', 60_000);
    }

    await environment.advance(2 * ttl);
    await until(lock.release());

    expect(await owners()).toEqual(['another client', 'another client', 'another client']);
    expect(lock.isValid).toBe(false);
  });

  it('keeps its keys while its body may still run', async () => {
    const { environment, redlock, node, until } = setScene();
    const body = deferred();
    const error = reasonOf(redlock.using('r', { ttl }, () => body.promise));
    await environment.settle();
    node(0).restart();
    node(1).restart();
    await environment.advance(ttl / 3 + 10);

    const kept = await node(2).ownerOf('r');
    body.resolve();

    expect(expectInstance(await until(error), LockLostError).reason).toBe('revoked');
    expect(kept).not.toBeNull();
    expect(await node(2).ownerOf('r')).toBeNull();
  });

  it('sends nothing more', async () => {
    const { environment, redlock, node, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    environment.block(ttl);

    const error = await rejection(lock.extend());

    expect(expectInstance(error, LockLostError).reason).toBe('expired');
    expect(node(0).count('extend')).toBe(0);
  });
});

describe('a node that lost its keys', () => {
  it('alone of three does not cost the lock, and counts again after a later extension', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    node(0).restart();
    await environment.advance(ttl / 3 + 10);
    const isValidAfterRevocation = lock.isValid;
    await environment.advance(ttl / 3 + 10);

    node(1).restart();
    await environment.advance(ttl / 3 + 10);

    expect(isValidAfterRevocation).toBe(true);
    expect(lock.isValid).toBe(true);
  });

  it('may cost the lock with the next one, if no extension comes in between that counts it again', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    node(1).restart();
    await environment.advance(ttl / 3 + 10);

    node(0).restart();
    await environment.advance(ttl / 3 + 10);

    expect(lock.isValid).toBe(false);
  });

  it('may move the end of validity to an earlier one, of which the holder is told in time', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const onAbort = jest.fn();
    lock.signal.addEventListener('abort', onAbort);
    await environment.advance(4_000);
    await until(lock.extend());
    await environment.advance(4_000);
    node(2).refuse('extend');
    await until(lock.extend());
    await environment.advance(4_000);
    node(0).restart();
    node(1).refuse('extend');
    await until(reasonOf(lock.extend()));
    const remaining = lock.remaining;

    await environment.advance(remaining + 1);

    expect(remaining).toBeLessThan(2_000);
    expect(onAbort).toHaveBeenCalledTimes(1);
    expect(environment.pendingTimers).toBe(0);
  });

  it('does not count in the very round that stored its key again', async () => {
    const { redlock, node, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    node(0).restart();
    node(1).fail('answerOdd', 'extend');

    const error = await rejection(lock.extend());

    expect(expectInstance(error, NoQuorumError).votes.map(({ vote }) => vote)).toEqual([
      'revoked',
      'failed',
      'granted',
    ]);
    expect(lock.isValid).toBe(true);
  });
});

describe('quarantined nodes', () => {
  it('do not renew a lease, and do not take it either', async () => {
    const { environment, redlock, nodes, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const before = lock.remaining;
    for (const node of nodes) node.fail('quarantined', 'extend');
    await environment.advance(100);

    const error = await rejection(lock.extend());

    expect(expectInstance(error, NoQuorumError).message).toContain(
      'may have forgotten locks that are held',
    );
    expect(lock.remaining).toBeCloseTo(before - 100, 6);
  });
});
