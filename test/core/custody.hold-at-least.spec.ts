import { describe, expect, it } from '@jest/globals';

import { deferred, extendedTtls, setScene } from './scene.js';
import type { Lock } from '../../lib/core/lock.js';

const ttl = 10_000;

/** A scene in which a body has ended, and no node could be told to keep its lock for longer. */
async function keepUntold(ttl: number, holdAtLeast: number) {
  const scene = setScene();
  for (const node of scene.nodes) node.fail('down', 'extend');
  await scene.until(scene.redlock.using('r', { ttl, holdAtLeast }, () => 1));
  return scene;
}

describe('a resource that `holdAtLeast` keeps when the body has ended', () => {
  it('is kept by the nodes until then, even if the process ends before', async () => {
    const { environment, redlock, node, owners, until } = setScene();
    await until(redlock.using('r', { ttl: 600, holdAtLeast: 3_000 }, () => 1));
    await environment.settle();

    const lifetime = await node(0).keyLifetime('r');
    await environment.advance(2_999);
    const before = await owners();
    await environment.advance(3);

    // A third of the ttl longer, and by the drift.
    expect(lifetime).toBe(Math.ceil(3_200 / 0.99));
    expect(before).not.toContain(null);
    expect(node(0).count('extend')).toBe(1);
    expect(await owners()).toEqual([null, null, null]);
  });

  it('is not extended where the nodes keep it for that long anyway', async () => {
    const { environment, redlock, node, owners, until } = setScene();
    await until(redlock.using('r', { ttl, holdAtLeast: 6_000 }, () => 1));

    await environment.advance(6_002);

    expect(node(0).count('extend')).toBe(0);
    expect(await owners()).toEqual([null, null, null]);
  });

  it('is kept in full, although a timer may be early', async () => {
    const { environment, redlock, observer, until } = setScene();
    const body = (): Promise<void> => new Promise((resolve) => environment.schedule(0.5, resolve));

    await until(redlock.using('r', { holdAtLeast: 3_000 }, body));
    await environment.advance(3_002);

    expect(observer.released.mock.calls[0]?.[1]).toBeGreaterThanOrEqual(3_000);
  });

  it('may be kept for as long as a timer can run', async () => {
    const { environment, redlock, owners, until } = setScene();
    const longest = 2_147_483_647;

    await until(redlock.using('r', { maxHold: longest, holdAtLeast: longest }, () => 1));
    await environment.advance(100);

    expect(await owners()).not.toContain(null);
  });

  it('is not lost where the process is busy when its time is over', async () => {
    const { environment, redlock, observer, owners, until } = setScene();
    await until(redlock.using('r', { ttl: 600, holdAtLeast: 3_000 }, () => 1));
    await environment.advance(2_900);

    environment.block(290);
    await environment.advance(1);

    expect(observer.lost).not.toHaveBeenCalled();
    expect(await owners()).toEqual([null, null, null]);
  });

  it('is not lost where the process stands still until the nodes have let go of it', async () => {
    const { environment, redlock, observer, until } = setScene();
    await until(redlock.using('r', { ttl: 600, holdAtLeast: 3_000 }, () => 1));
    await environment.advance(1_000);

    environment.block(60_000);
    await environment.advance(1);

    expect(observer.lost).not.toHaveBeenCalled();
    expect(observer.released).toHaveBeenCalledTimes(1);
    expect(redlock.status().held).toBe(0);
  });

  it('is lost where an extension that is under way finds its keys gone', async () => {
    const { environment, redlock, nodes, observer, until } = setScene();
    const body = deferred();
    const work = redlock.using('r', { ttl: 6_000, holdAtLeast: 3_000 }, () => body.promise);
    await environment.advance(1_900);
    for (const node of nodes) {
      node.lose();
      node.delay({ answer: 300 });
    }
    await environment.advance(200);

    body.resolve();
    await until(work);
    await environment.advance(300);

    expect(observer.lost.mock.calls.map(([, reason]) => reason)).toEqual(['revoked']);
    expect(observer.released).not.toHaveBeenCalled();
  });

  it('is kept by the watchdog where the nodes could not be told', async () => {
    const { environment, nodes, owners } = await keepUntold(600, 3_000);
    await environment.advance(100);
    for (const node of nodes) node.heal();

    await environment.advance(2_800);

    expect(await owners()).not.toContain(null);
  });

  it('is kept by the watchdog then also where the body went without it', async () => {
    const { environment, redlock, nodes, owners, until } = setScene();
    const options = { ttl: 600, watchdog: false, holdAtLeast: 3_000 };
    const body = deferred();
    const work = redlock.using('r', options, () => body.promise);
    await environment.advance(300);
    for (const node of nodes) {
      // With this fault the answer takes its time: the watchdog is asked while it is awaited.
      node.fail('misconfigured', 'extend');
      node.delay({ answer: 60 });
    }

    body.resolve();
    await until(work);
    await environment.advance(100);
    for (const node of nodes) node.heal();
    await environment.advance(2_550);

    expect(await owners()).not.toContain(null);
  });
});

describe('a shutdown while `holdAtLeast` keeps a resource', () => {
  it('leaves the keys to their ttl, as far as that reaches, and no timer', async () => {
    const { environment, redlock, nodes, owners, until } = setScene();
    await until(redlock.using('r', { ttl: 2_000, holdAtLeast: 20_000 }, () => 1));
    await environment.advance(5_000);

    await until(redlock.close(), 10);

    expect(environment.pendingTimers).toBe(0);
    expect(redlock.status().held).toBe(0);
    const lifetimes = await Promise.all(nodes.map((node) => node.keyLifetime('r')));
    expect(Math.min(...lifetimes)).toBeGreaterThan(15_000);
    expect(Math.max(...lifetimes)).toBeLessThan(16_000);
    await environment.advance(16_000);
    expect(await owners()).toEqual([null, null, null]);
  });

  it('ends the claim of whoever still has the lock, and that is no loss', async () => {
    const { environment, redlock, observer, until } = setScene();
    const body = (held: Lock): Promise<Lock> => Promise.resolve(held);
    const lock = await until(redlock.using('r', { ttl: 2_000, holdAtLeast: 20_000 }, body));

    await until(redlock.close(), 10);

    expect(lock.isValid).toBe(false);
    await environment.advance(60_000);
    expect(lock.signal.aborted).toBe(false);
    expect(observer.lost).not.toHaveBeenCalled();
  });

  it('waits until nodes that could not be told before have that, in whole ms', async () => {
    const { environment, redlock, node, nodes, until } = await keepUntold(2_000, 20_000);
    await environment.advance(500.4);
    for (const each of nodes) {
      each.heal();
      each.delay({ request: 20 });
    }

    await until(redlock.close());

    expect(extendedTtls(node(0)).at(-1)).toBe(19_500);
    expect(await node(0).keyLifetime('r')).toBeGreaterThan(19_400);
  });

  it('gives the nodes ttlMax at most', async () => {
    const { redlock, nodes, until } = setScene({ options: { ttlMax: 5_000 } });
    await until(redlock.using('r', { ttl: 2_000, holdAtLeast: 60_000 }, () => 1));

    await until(redlock.close(), 10);

    const lifetimes = await Promise.all(nodes.map((node) => node.keyLifetime('r')));
    expect(Math.max(...lifetimes)).toBe(5_000);
  });

  it.each([10, 20, 30])('gives the nodes 100 ms at least: after %d of 101', async (age) => {
    const { environment, redlock, node, nodes, until } = await keepUntold(100, 101);
    await environment.advance(age);
    for (const each of nodes) each.heal();

    await until(redlock.close(), 10);

    expect(extendedTtls(node(0)).at(-1)).toBe(100);
  });

  it('does not extend what the keys outlive anyway', async () => {
    const { redlock, node, until } = setScene();
    await until(redlock.using('r', { ttl, holdAtLeast: 1_000 }, () => 1));

    await until(redlock.close(), 10);

    expect(node(0).count('extend')).toBe(0);
    expect(await node(0).ownerOf('r')).not.toBeNull();
  });

  it('releases what fell due while the process was blocked', async () => {
    const { environment, redlock, owners, until } = setScene();
    await until(redlock.using('r', { ttl, holdAtLeast: 5_000 }, () => 1));
    environment.block(6_000);

    await until(redlock.close(), 1);

    expect(await owners()).toEqual([null, null, null]);
  });

  it('deletes what is left of its keys where it was lost', async () => {
    const { environment, redlock, observer, node, owners, until } = setScene();
    await until(redlock.using('r', { ttl: 2_000, holdAtLeast: 60_000 }, () => 1));
    node(0).restart();
    node(1).restart();
    await environment.advance(1_000);
    const left = await owners();

    await until(redlock.close(), 1);

    expect(observer.lost).toHaveBeenCalledTimes(1);
    expect(left).not.toEqual([null, null, null]);
    expect(await owners()).toEqual([null, null, null]);
  });

  it('gives up on nodes that hang after one node timeout', async () => {
    const { environment, redlock, nodes, until } = setScene();
    await until(redlock.using('r', { ttl: 2_000, holdAtLeast: 20_000 }, () => 1));
    for (const node of nodes) node.hang();

    await until(redlock.close(), 502);

    expect(environment.pendingTimers).toBe(0);
  });

  it('waits for a release that is under way', async () => {
    const { environment, redlock, nodes, owners, until } = setScene();
    const call = redlock.using('r', { ttl: 2_000, holdAtLeast: 5_000 }, () => 1);
    await environment.settle();
    for (const node of nodes) node.delay({ request: 50 });
    await environment.advance(5_002);

    await until(redlock.close());

    await call;
    expect(await owners()).toEqual([null, null, null]);
  });
});

describe('a lock that `holdAtLeast` keeps, released by hand', () => {
  it('leaves no timer', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(
      redlock.using('r', { ttl, holdAtLeast: 60_000 }, (held) => Promise.resolve(held)),
    );

    await until(lock.release());

    expect(environment.pendingTimers).toBe(0);
    expect(redlock.status().held).toBe(0);
  });
});
