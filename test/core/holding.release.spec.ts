import { describe, expect, it, jest } from '@jest/globals';

import { askForRelease } from '../../lib/core/release-round.js';
import { listen, requestFor, worldOf } from '../support/node-harness.js';
import { ensembleOf, setScene } from './scene.js';

const ttl = 10_000;

describe('a round of release', () => {
  it('tells once how many listen, as far as any of its nodes knows', async () => {
    const { environment, nodes, node } = setScene();
    const token = Math.floor(environment.wallClock() * 1_000);
    const ensemble = ensembleOf(environment, nodes);
    const { world } = ensemble.options;
    const onDone = jest.fn();
    const ear = listen(node(0), worldOf(), 'r');
    const request = { ...requestFor({ world, token }), wakes: true };
    node(0).acquire(request, () => undefined);
    node(2).delay({ answer: 1 });
    await environment.settle();

    askForRelease(ensemble, [], request, onDone);
    await environment.advance(10);

    expect(onDone.mock.calls).toMatchObject([[{ listeners: 1 }]]);
    (await ear).stop();
  });
});

describe('a release', () => {
  it('deletes the keys on all nodes in one round', async () => {
    const { environment, redlock, nodes, owners, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(1_000);

    await until(lock.release());

    expect(await owners()).toEqual([null, null, null]);
    expect(nodes.map((node) => node.count('release'))).toEqual([1, 1, 1]);
    expect(observer.released).toHaveBeenCalledWith(lock, 1_000);
    expect(environment.pendingTimers).toBe(0);
  });

  it('that nodes keep waiting is not of the time for which the lock was held', async () => {
    const { environment, redlock, nodes, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(1_000);
    for (const node of nodes) node.hang();

    await until(lock.release());

    expect(observer.released.mock.calls).toEqual([[lock, 1_000]]);
  });

  it('leaves no timer, also when most of the ttl is over', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(0.9 * ttl);

    await until(lock.release());

    expect(environment.pendingTimers).toBe(0);
  });

  it('is one, and told once, also where a node that is asked for it asks for it in turn', async () => {
    const { redlock, nodes, node, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const asked = jest.spyOn(node(0), 'release').mockImplementationOnce((request, onAnswer) => {
      void lock.release();
      node(0).release(request, onAnswer);
    });

    await until(lock.release());

    asked.mockRestore();
    expect(nodes.map((each) => each.count('release'))).toEqual([1, 1, 1]);
    expect(observer.released).toHaveBeenCalledTimes(1);
  });

  it('ends the claim before the first byte is sent', async () => {
    const { redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.hang();

    void lock.release();

    expect(lock.isValid).toBe(false);
    expect(lock.signal.aborted).toBe(false);
  });

  it('keeps the pace of the majority when one node hangs', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    node(0).hang();
    const startedAt = environment.now();

    await until(lock.release());

    expect(environment.now()).toBe(startedAt);
  });

  it('is over when a quorum of nodes has answered, not before', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    node(1).delay({ answer: 50 });
    node(2).delay({ answer: 100 });
    const startedAt = environment.now();

    await until(lock.release());

    expect(environment.now() - startedAt).toBe(50);
  });

  it('does not count the answer of a node that cannot do it', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    node(0).refuse('release');
    node(1).delay(10);
    node(2).delay(20);
    const startedAt = environment.now();

    await until(lock.release());

    expect(environment.now() - startedAt).toBe(20);
  });

  it('gives up after the node timeout when the nodes hang, and is no error', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.hang();
    const startedAt = environment.now();

    const release = lock.release();
    const timersMeanwhile = environment.processHoldingTimers;
    await until(release);

    expect(environment.now() - startedAt).toBeLessThanOrEqual(501);
    // Or the process might end before the keys are deleted.
    expect(timersMeanwhile).toBe(1);
  });

  it('on nodes that are down ends with their answers, and is no error', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.refuse();
    const startedAt = environment.now();

    await until(lock.release());

    expect(environment.now()).toBe(startedAt);
  });

  it('a second time changes nothing', async () => {
    const { redlock, node, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    await until(Promise.all([lock.release(), lock.release()]));
    await until(lock.release());

    expect(node(0).count('release')).toBe(1);
    expect(observer.released).toHaveBeenCalledTimes(1);
  });

  it('of an expired lock is one round, not retried for seconds', async () => {
    const { environment, redlock, nodes, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    environment.block(2 * ttl);

    await until(lock.release());
    await environment.advance(60_000);

    expect(nodes.map((node) => node.count('release'))).toEqual([1, 1, 1]);
    expect(observer.lost).toHaveBeenCalledWith(lock, 'expired', 2 * ttl);
    expect(observer.released).not.toHaveBeenCalled();
  });

  it('keeps an acquisition out that comes to its node only after it', async () => {
    const { environment, redlock, node, owners, until } = setScene();
    node(2).fail('requestLost', 'acquire');
    const lock = await until(redlock.acquire('r', ttl));
    const lost = node(2).calls[0]?.request;
    await until(lock.release());

    node(2).heal();
    if (lost != null) node(2).acquire(lost, () => undefined);
    await environment.settle();

    expect(await owners()).toEqual([null, null, null]);
  });

  it('is sent to a node that only an extension has reached', async () => {
    const { environment, redlock, node, owners, until } = setScene();
    node(0).refuse('acquire');
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    await environment.advance(ttl / 3);
    const extended = await owners();

    await until(lock.release());

    expect(extended).toEqual([lock.ownerId, lock.ownerId, lock.ownerId]);
    expect(await owners()).toEqual([null, null, null]);
  });

  it('names the longest lifetime that the keys were ever given', async () => {
    const { redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await until(lock.extend(20_000));
    await until(lock.extend(5_000));

    await until(lock.release());

    const release = node(0).calls.find(({ operation }) => operation === 'release');
    expect(release?.request?.ttl).toBe(20_000);
  });
});
