// `lock.extend`, with and without a watchdog beside it.
import { describe, expect, it } from '@jest/globals';

import { LockLostError, NoQuorumError } from '../../lib/core/errors.js';
import { expectInstance, extendedTtls, reasonOf, setScene, watch } from './scene.js';

const ttl = 10_000;

const validity = ttl * 0.99 - 2;

const watched = { watchdog: true };

describe('an extension by hand to another ttl', () => {
  it('that fails leaves the watchdog with the ttl that the lock has', async () => {
    const { environment, redlock, nodes, until, rejection } = setScene();
    const lock = await until(redlock.acquire('r', 1_000, watched));
    for (const node of nodes) node.refuse('extend');
    await environment.advance(300);

    await rejection(lock.extend(30_000));
    await environment.advance(100);
    for (const node of nodes) node.heal();
    await environment.advance(3_000);

    expect(lock.isValid).toBe(true);
  });

  it('that succeeds is what the lock is given from then on', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', 1_000, watched));

    await until(lock.extend(6_000));
    await environment.advance(4_000);
    await until(lock.extend());

    expect(new Set(extendedTtls(node(0)))).toEqual(new Set([6_000]));
    expect(lock.remaining).toBeGreaterThan(5_000);
  });
});

describe('an extension by hand', () => {
  it('gives the lock its ttl anew', async () => {
    const { environment, redlock, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(5_000);

    await until(lock.extend());

    expect(lock.remaining).toBeCloseTo(validity, 6);
    expect(observer.extended).toHaveBeenCalledWith(lock);
  });

  it('may name another ttl, and never shortens what there is', async () => {
    const { redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    await until(lock.extend(1_000));
    const afterShorter = lock.remaining;
    await until(lock.extend(20_000));

    expect(afterShorter).toBeCloseTo(validity, 6);
    expect(lock.remaining).toBeCloseTo(20_000 * 0.99 - 2, 6);
    const lifetimes = await Promise.all(nodes.map((node) => node.keyLifetime('r')));
    expect(Math.min(...lifetimes)).toBeGreaterThan(19_900);
  });

  it('of an expired-on-time lock moves the notice of its end', async () => {
    const { environment, redlock, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(9_000);
    await until(lock.extend());

    await environment.advance(9_000);
    const isValidBefore = lock.isValid;
    await environment.advance(1_000);

    expect(isValidBefore).toBe(true);
    expect(observer.lost).toHaveBeenCalledWith(lock, 'expired', expect.any(Number));
  });

  it('is refused after the node timeout when the nodes hang; the lock is still held', async () => {
    const { environment, redlock, nodes, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.hang();
    const startedAt = environment.now();

    const error = expectInstance(await rejection(lock.extend()), NoQuorumError);

    expect(environment.now() - startedAt).toBeLessThanOrEqual(501);
    expect(error.votes.map(({ vote }) => vote)).toEqual(['none', 'none', 'none']);
    expect(error.resources).toEqual(['r']);
    expect(error.message).toMatch(
      /^Could not extend the lock of "r": too few nodes did\. It is held for another \d+ ms\. Nodes: /,
    );
    expect(lock.isValid).toBe(true);
  });

  it('tells of a node that hangs now that it said nothing, whatever it said before', async () => {
    const { redlock, nodes, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await until(lock.extend());
    for (const node of nodes) node.hang();

    const error = expectInstance(await rejection(lock.extend()), NoQuorumError);

    expect(error.votes.map(({ vote }) => vote)).toEqual(['none', 'none', 'none']);
  });

  it('waits for the one under way', async () => {
    const { environment, redlock, nodes, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const each of nodes) each.delay({ answer: 10 });

    const both = Promise.all([lock.extend(), lock.extend()]);
    await environment.settle();
    const askedAtFirst = node(0).count('extend');
    await until(both);

    expect(askedAtFirst).toBe(1);
    expect(node(0).count('extend')).toBe(2);
  });

  it('does not wait for the one under way where enough nodes owe no answer', async () => {
    const { environment, redlock, nodes, node, until } = setScene({ nodes: 5 });
    const lock = await until(redlock.acquire('r', ttl));
    node(0).hang();
    node(1).hang();
    node(2).refuse('extend');
    const first = reasonOf(lock.extend());
    await environment.settle();
    node(2).heal();

    await until(lock.extend(), 1);

    expect(nodes.map((each) => each.count('extend'))).toEqual([1, 1, 2, 2, 2]);
    await until(first);
  });

  it('that waits for one under way gives up at its own node timeout', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.hang();
    const first = reasonOf(lock.extend());
    const second = reasonOf(lock.extend());
    await environment.advance(600);
    for (const node of nodes) node.heal();

    const errors = await until(Promise.all([first, second]));

    for (const error of errors) expect(error).toBeInstanceOf(NoQuorumError);
    await environment.advance(100);
    expect(nodes.map((node) => node.count('extend'))).toEqual([1, 1, 1]);
  });

  it('three times at once on healthy nodes succeeds three times', async () => {
    const { redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.delay({ answer: 5 });

    const outcomes = await until(Promise.allSettled([lock.extend(), lock.extend(), lock.extend()]));

    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled']);
  });

  it('is ended by the end of the validity', async () => {
    const { environment, redlock, nodes, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(validity - 100);
    for (const node of nodes) node.hang();
    const startedAt = environment.now();

    const error = await rejection(lock.extend());

    expect(expectInstance(error, LockLostError).reason).toBe('expired');
    expect(environment.now() - startedAt).toBeLessThanOrEqual(101);
    expect(environment.pendingTimers).toBe(0);
  });

  it('keeps the process alive until it is over', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.hang();

    const extension = reasonOf(lock.extend());
    const timersMeanwhile = environment.processHoldingTimers;
    await until(extension);

    expect(timersMeanwhile).toBe(1);
    expect(environment.processHoldingTimers).toBe(0);
  });

  it('is ended by a release', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.delay({ answer: 100 });
    const extension = reasonOf(lock.extend());
    await environment.advance(10);

    await until(lock.release());

    expect(expectInstance(await until(extension), LockLostError).reason).toBe('released');
    await environment.advance(500);
    expect(environment.pendingTimers).toBe(0);
  });

  it('that waits for one under way is ended by a release too, at once, and asks no node', async () => {
    const { environment, redlock, nodes, owners, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes.slice(1)) node.delay({ answer: 100 });
    const first = reasonOf(lock.extend());
    const second = reasonOf(lock.extend());
    const isOver = watch(second);
    await environment.advance(10);

    const release = lock.release();
    await environment.settle();

    expect(isOver()).toBe(true);
    for (const error of await Promise.all([first, second])) {
      expect(expectInstance(error, LockLostError).reason).toBe('released');
    }
    await until(release);
    expect(nodes.map((node) => node.count('extend'))).toEqual([1, 1, 1]);
    expect(await owners()).toEqual([null, null, null]);
  });
});
