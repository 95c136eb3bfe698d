// How processes wait for each other: who is told of a release, who goes first, and what becomes of
// it when nothing is heard.
import { describe, expect, it } from '@jest/globals';

import { LockTakenError } from '../../lib/core/errors.js';
import { listen, worldOf } from '../support/node-harness.js';
import { deferred, expectInstance, reasonOf, setScene } from './scene.js';
import type { Redlock } from '../../lib/core/redlock.js';
import type { TestNode } from '../support/test-node.js';
import type { Scene } from './scene.js';

const ttl = 10_000;

/** How often all nodes were asked for something. */
function count(nodes: readonly TestNode[], operation: 'acquire' | 'release'): number {
  return nodes.reduce((sum, node) => sum + node.count(operation), 0);
}

/** Another process holds `r`, and `redlock` waits for it, listening. */
async function waitForAnother(scene: Scene, wait = 60_000) {
  const lock = await scene.until(scene.otherProcess().acquire('r', 30_000));
  const waiting = scene.redlock.acquire('r', ttl, { wait });
  await scene.environment.advance(5);
  return { lock, waiting };
}

describe('a release in another process', () => {
  it('wakes a waiting call at once', async () => {
    const scene = setScene();
    for (const node of scene.nodes) node.delay({ request: 0.25, answer: 0.25 });
    const { lock, waiting } = await waitForAnother(scene);
    const before = scene.environment.now();

    void lock.release();
    await scene.until(waiting);

    expect(scene.environment.now() - before).toBeLessThan(2);
  });

  it('is heard when it comes between an attempt and the subscription', async () => {
    const scene = setScene();
    for (const node of scene.nodes) node.delay({ request: 1, answer: 1 });
    const lock = await scene.until(scene.otherProcess().acquire('r', 30_000));
    const waiting = scene.redlock.acquire('r', ttl);
    // The attempt was refused; the subscriptions are under way.
    await scene.environment.advance(2.1);
    const before = scene.environment.now();

    void lock.release();
    await scene.until(waiting);

    expect(scene.environment.now() - before).toBeLessThan(10);
  });

  it.each([
    ['is lost', 61, (node: TestNode) => (node.isDeaf = true)],
    ['comes twice from a node', 61, (node: TestNode) => node.forgeWakeUp('r')],
  ])('whose wake-up %s delays the next by no more than a poll', async (_, limit, disturb) => {
    const scene = setScene();
    const { lock, waiting } = await waitForAnother(scene);
    for (const node of scene.nodes) disturb(node);
    const before = scene.environment.now();

    await scene.until(lock.release());
    await scene.until(waiting);

    expect(scene.environment.now() - before).toBeLessThanOrEqual(limit);
  });

  it('is found by polling, between the bounds of retryDelay, where nothing can be heard', async () => {
    const scene = setScene();
    for (const node of scene.nodes) node.isDeaf = true;
    const { lock, waiting } = await waitForAnother(scene);
    const before = scene.environment.now();

    await scene.until(lock.release());
    await scene.until(waiting);

    expect(scene.environment.now() - before).toBeLessThanOrEqual(121);
  });

  it('wakes while a minority of the nodes is deaf or down', async () => {
    const scene = setScene({ nodes: 5 });
    scene.node(0).isDeaf = true;
    scene.node(1).refuse();
    const { lock, waiting } = await waitForAnother(scene);
    const before = scene.environment.now();

    await scene.until(lock.release());
    await scene.until(waiting);

    expect(scene.environment.now() - before).toBeLessThanOrEqual(1);
  });
});

describe('a wake-up of many', () => {
  it('makes each draw a delay, which no further node that tells of it cuts short', async () => {
    const scene = setScene();
    await waitForAnother(scene);
    const before = scene.node(0).count('acquire');

    for (const node of scene.nodes) {
      node.forgeWakeUp('r', 8);
      await scene.environment.settle();
    }
    const atOnce = scene.node(0).count('acquire');
    await scene.environment.advance(20);
    const afterRace = scene.node(0).count('acquire');
    await scene.environment.advance(1_000);

    expect(atOnce).toBe(before);
    expect(afterRace).toBe(before + 1);
    // Then it polls as before: nobody else was woken for that.
    const times = scene
      .node(0)
      .calls.slice(before)
      .map(({ at }) => at);
    const pauses = times.slice(2).map((at, index) => at - (times[index + 1] ?? 0));
    expect(Math.max(...pauses)).toBeLessThanOrEqual(60);
  });
});

describe('a forged wake-up', () => {
  it('costs an attempt, and gives nobody a lock', async () => {
    const scene = setScene();
    const { lock, waiting } = await waitForAnother(scene, 500);
    const refused = reasonOf(waiting);
    const before = scene.node(0).count('acquire');

    for (const node of scene.nodes) node.forgeWakeUp('r');
    await scene.environment.advance(1);

    expect(scene.node(0).count('acquire')).toBe(before + 1);
    // What a third node told then is no news either.
    scene.node(0).forgeWakeUp('r');
    await scene.environment.advance(1);
    expect(scene.node(0).count('acquire')).toBe(before + 1);
    expect(lock.isValid).toBe(true);
    expect(await scene.until(refused)).toBeInstanceOf(LockTakenError);
  });
});

describe('a call that waits for another process', () => {
  it('asks once when it arrives, once when it listens, and then polls every 40 to 60 ms', async () => {
    const scene = setScene();
    const { waiting } = await waitForAnother(scene, 1_005);

    await scene.until(reasonOf(waiting));

    const times = scene
      .node(0)
      .calls.filter(({ operation }) => operation === 'acquire')
      .map(({ at }) => at)
      .slice(2);
    const pauses = times.slice(1).map((at, index) => at - (times[index] ?? 0));
    expect(Math.min(...pauses.slice(0, -1))).toBeGreaterThanOrEqual(40);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(60);
  });

  it('polls no more often than the least retryDelay', async () => {
    const scene = setScene();
    await scene.until(scene.otherProcess().acquire('r', 30_000));
    const retryDelay = { min: 400, max: 500 };

    await scene.rejection(scene.redlock.acquire('r', ttl, { wait: 3_900, retryDelay }));

    // One by the other process, two at the start, then one in 400 ms.
    expect(scene.node(0).count('acquire')).toBeLessThanOrEqual(3 + 9);
  });

  it('leaves no subscription and no timer behind, whether it gets the lock or gives up', async () => {
    const scene = setScene();
    const { lock, waiting } = await waitForAnother(scene);
    const impatient = reasonOf(scene.redlock.acquire(['r', 's'], ttl, { wait: 50 }));
    await scene.environment.advance(100);
    await scene.until(lock.release());
    const own = await scene.until(waiting);
    await scene.until(impatient);

    await scene.until(own.release());
    await scene.environment.advance(10);

    const left = scene.nodes.map((node) => node.listenersOf('r') + node.listenersOf('s'));
    expect(left).toEqual([0, 0, 0]);
    expect(scene.environment.pendingTimers).toBe(0);
  });

  it('does not stall those behind it when it is aborted at the head of the queue', async () => {
    const scene = setScene();
    const lock = await scene.until(scene.otherProcess().acquire('r', 30_000));
    const controller = new AbortController();
    const head = reasonOf(
      scene.redlock.acquire('r', ttl, { wait: 60_000, signal: controller.signal }),
    );
    const second = scene.redlock.acquire('r', ttl, { wait: 60_000 });
    await scene.environment.advance(10);

    controller.abort(new Error('changed my mind'));
    await scene.environment.advance(10);
    const before = scene.environment.now();
    // Its turn has come, and it looks for itself: no wake-up of others helps it.
    for (const node of scene.nodes) node.isDeaf = true;
    await scene.until(lock.release());

    expect((await scene.until(second)).isValid).toBe(true);
    expect(scene.environment.now() - before).toBeLessThanOrEqual(61);
    expect(await scene.until(head)).toEqual(new Error('changed my mind'));
  });
});

describe('calls of one process for one resource', () => {
  /** Runs `length` ms under the lock of `r` and notes who it was. */
  function work(scene: Scene, process: Redlock, name: string, order: string[], length = 1) {
    return process.using('r', { ttl, wait: 60_000 }, async () => {
      order.push(name);
      await new Promise<void>((resolve) => scene.environment.schedule(length, resolve));
    });
  }

  it('hand the lock on in the order of the calls, and ask the nodes for those only to whom it is not handed over', async () => {
    const scene = setScene();
    for (const node of scene.nodes) node.delay({ request: 0.2, answer: 0.2 });
    const listening = scene.nodes.map((node) => listen(node, worldOf(), 'r'));
    const ears = await scene.until(Promise.all(listening));
    const names = Array.from({ length: 20 }, (_, index) => `${index}`);
    const order: string[] = [];

    await scene.until(Promise.all(names.map((name) => work(scene, scene.redlock, name, order))));

    expect(order).toEqual(names);
    // The first came alone; the second asked for all behind it. After the 17th others are told.
    expect(count(scene.nodes, 'acquire')).toBe(3 * 3);
    expect(count(scene.nodes, 'release')).toBe(3 * 3);
    expect(ears.map(({ heard }) => heard.length)).toEqual([2, 2, 2]);
    for (const ear of ears) ear.stop();
    expect(scene.nodes.map((node) => node.listenersOf('r'))).toEqual([0, 0, 0]);
  });

  it('do not ask the nodes while one of them has the lock', async () => {
    const scene = setScene();
    const body = deferred();
    const holder = scene.redlock.using('r', { ttl }, () => body.promise);
    await scene.environment.advance(1);
    const before = scene.node(0).count('acquire');
    const order: string[] = [];
    const next = work(scene, scene.redlock, 'next', order);

    await scene.environment.advance(2_000);
    const asked = scene.node(0).count('acquire') - before;
    body.resolve();
    await scene.until(Promise.all([holder, next]));

    expect(asked).toBe(0);
    expect(order).toEqual(['next']);
  });

  it('learn what the nodes say when their patience ends behind a lock of their process', async () => {
    const scene = setScene();
    await scene.until(scene.redlock.acquire('r', ttl));

    const error = await scene.rejection(scene.redlock.acquire('r', ttl, { wait: 300 }));

    const taken = expectInstance(error, LockTakenError);
    expect(taken.votes.map(({ vote }) => vote)).toEqual(['taken', 'taken', 'none']);
    expect(taken.retryAfter).toBeGreaterThan(9_000);
  });

  it('let another process go first after 16 hand-overs', async () => {
    const scene = setScene();
    for (const node of scene.nodes) node.delay({ request: 0.2, answer: 0.2 });
    const order: string[] = [];
    const other = scene.otherProcess();

    const calls = [
      ...Array.from({ length: 60 }, () => work(scene, scene.redlock, 'a', order)),
      ...Array.from({ length: 60 }, () => work(scene, other, 'b', order)),
    ];
    await scene.until(Promise.all(calls));

    const runs = order.join('').match(/a+|b+/g) ?? [];
    expect(order).toHaveLength(120);
    // The last to have callers left goes on alone.
    expect(Math.max(...runs.slice(0, -2).map((run) => run.length))).toBeLessThanOrEqual(17);
    expect(runs.length).toBeGreaterThanOrEqual(6);
  });

  it('let other processes go first after each of them where they hold the lock for long', async () => {
    const scene = setScene();
    for (const node of scene.nodes) node.delay({ request: 0.2, answer: 0.2 });
    const order: string[] = [];
    const processes = { a: scene.redlock, b: scene.otherProcess(), c: scene.otherProcess() };

    const calls = Object.entries(processes).flatMap(([name, process]) =>
      Array.from({ length: 20 }, () => work(scene, process, name, order, 100)),
    );
    await scene.until(Promise.all(calls));

    const turnsOf = (name: string, count: number): number =>
      order.slice(0, count).filter((each) => each === name).length;
    const leads = order.map((_, count) => {
      const turns = Object.keys(processes).map((name) => turnsOf(name, count));
      return Math.max(...turns) - Math.min(...turns);
    });
    expect(order).toHaveLength(60);
    expect(Math.max(...leads)).toBeLessThanOrEqual(2);
  });

  it('do not starve another process by taking the lock again and again', async () => {
    const scene = setScene();
    for (const node of scene.nodes) node.delay({ request: 0.2, answer: 0.2 });
    const order: string[] = [];
    const loop = async (process: Redlock, name: string): Promise<void> => {
      for (let round = 0; round < 30; round += 1) await work(scene, process, name, order);
    };

    await scene.until(Promise.all([loop(scene.redlock, 'a'), loop(scene.otherProcess(), 'b')]));

    const half = order.slice(0, 30).filter((name) => name === 'a').length;
    expect(half).toBeGreaterThan(10);
    expect(half).toBeLessThan(20);
  });

  it('go on when a lock is lost before it could be handed on', async () => {
    const scene = setScene();
    const body = deferred();
    const lost = reasonOf(scene.redlock.using('r', { ttl: 1_000 }, () => body.promise));
    await scene.environment.advance(1);
    const order: string[] = [];
    const next = work(scene, scene.redlock, 'next', order);
    for (const node of scene.nodes) {
      node.restart();
      node.occupy('r', 2_000);
    }

    await scene.environment.advance(1_500);
    body.resolve();
    await scene.until(Promise.all([lost, next]));

    expect(order).toEqual(['next']);
  });

  it('tell others when the one whose turn it was gives it up', async () => {
    const scene = setScene();
    for (const node of scene.nodes) node.delay({ request: 1, answer: 1 });
    const lock = await scene.until(scene.redlock.acquire('r', ttl));
    const controller = new AbortController();
    const own = reasonOf(
      scene.redlock.acquire('r', ttl, { wait: 60_000, signal: controller.signal }),
    );
    const other = scene.otherProcess().acquire('r', ttl, { wait: 60_000 });
    await scene.environment.advance(10);
    const before = scene.environment.now();

    void lock.release();
    await scene.environment.advance(1.5);
    controller.abort(new Error('changed my mind'));
    await scene.until(own);

    expect((await scene.until(other)).isValid).toBe(true);
    expect(scene.environment.now() - before).toBeLessThan(12);
  });
});

describe('a lock that is tried for without waiting', () => {
  it('is not held back by the turn of another process', async () => {
    const scene = setScene();
    const { lock, waiting } = await waitForAnother(scene);
    const other = scene.redlock;
    await scene.until(lock.release());
    const own = await scene.until(waiting);
    await scene.until(own.release());

    expect((await scene.until(other.tryAcquire('r', ttl), 1))?.isValid).toBe(true);
  });
});
