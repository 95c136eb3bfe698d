// How processes wait for each other: who is told of a release, who goes first, and what becomes of
// it when nothing is heard.
import { describe, expect, it } from '@jest/globals';

import { LockTakenError } from '../../lib/core/errors.js';
import { WakeUps } from '../../lib/core/wake-ups.js';
import { ensembleOf, reasonOf, setScene } from './scene.js';
import { toldTo, type TestNode } from '../support/test-node.js';
import type { Scene } from './scene.js';

const ttl = 10_000;

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
      node.forgeWakeUp('r', toldTo(8));
      await scene.environment.settle();
    }
    const atOnce = scene.node(0).count('acquire');
    await scene.environment.advance(26);
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
  it('of any number of others makes a call wait no longer than a poll', async () => {
    const scene = setScene();
    await waitForAnother(scene);
    const before = scene.node(0).count('acquire');

    for (const node of scene.nodes) node.forgeWakeUp('r', toldTo(1_000_000));
    await scene.environment.advance(61);

    expect(scene.node(0).count('acquire')).toBe(before + 1);
  });

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

describe('the subscriptions to one resource', () => {
  async function listening(scene: Scene) {
    const { environment, nodes } = scene;
    const told: string[] = [];
    new WakeUps(ensembleOf(environment, nodes), 'r', {
      onLive: () => told.push('live'),
      onWake: () => told.push('woken'),
    });
    await environment.settle();
    return told;
  }

  it('are live from when a quorum of nodes can be heard, and say so once', async () => {
    const scene = setScene();
    for (const node of scene.nodes) node.isDeaf = true;
    const told = await listening(scene);
    const counts: number[] = [];

    for (const node of scene.nodes) {
      node.isDeaf = false;
      node.restart();
      await scene.environment.settle();
      counts.push(told.length);
    }

    expect([told, counts]).toEqual([['live'], [0, 1, 1]]);
  });

  it('wait for nothing that was lost with the connection to a node', async () => {
    const scene = setScene();
    const told = await listening(scene);
    scene.node(0).forgeWakeUp('r');
    scene.node(1).forgeWakeUp('r');
    await scene.environment.settle();

    // Node 2 would have told of the same release.
    scene.node(2).restart();
    await scene.environment.settle();
    scene.node(2).forgeWakeUp('r');
    scene.node(0).forgeWakeUp('r');
    await scene.environment.settle();

    expect(told).toEqual(['live', 'woken', 'woken']);
  });

  it('wait for no more than one release of a node that was deaf to many', async () => {
    const scene = setScene();
    const told = await listening(scene);
    const tell = async (...nodes: readonly number[]): Promise<void> => {
      for (const node of nodes) scene.node(node).forgeWakeUp('r');
      await scene.environment.settle();
    };
    for (let count = 0; count < 3; count += 1) await tell(0, 1);

    await tell(2);
    const before = told.length;
    await tell(2, 0);

    expect([before, told.length]).toEqual([4, 5]);
  });
});
