// Many calls of one process for one resource, and the calls of other processes.
import { describe, expect, it } from '@jest/globals';

import { LockTakenError } from '../../lib/core/errors.js';
import { listen, worldOf } from '../support/node-harness.js';
import { asked, deferred, expectInstance, reasonOf, setScene } from './scene.js';
import type { Redlock } from '../../lib/core/redlock.js';
import type { Scene } from './scene.js';

const ttl = 10_000;

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
    expect(asked(scene, 'acquire')).toBe(3 * 3);
    expect(asked(scene, 'release')).toBe(3 * 3);
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
