import { describe, expect, it } from '@jest/globals';

import { Redlock } from '../../lib/core/redlock.js';
import { RoundTimer } from '../../lib/core/round-timer.js';
import { blockFor } from '../support/block-for.js';
import { startNodes, startProxy, startServer } from '../support/servers-of-test.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';

function setUp() {
  const environment = new SimulatedEnvironment();
  const startedAt = environment.now();
  const endedAfter: number[] = [];
  const onTimeout = (): number => endedAfter.push(environment.now() - startedAt);
  const timer = new RoundTimer(environment, 50, onTimeout);
  return { environment, timer, endedAfter };
}

describe('a round that nobody answers', () => {
  it('ends after its time', async () => {
    const { environment, endedAfter } = setUp();

    await environment.advance(1_000);

    expect(endedAfter).toEqual([50]);
    expect(environment.pendingTimers).toBe(0);
  });

  it('has its time once more where its process was busy until that was over', async () => {
    const { environment, endedAfter } = setUp();

    environment.block(60);
    await environment.advance(1_000);

    expect(endedAfter).toEqual([110]);
  });

  it('ends then, though its process was busy again', async () => {
    const { environment, endedAfter } = setUp();

    environment.block(60);
    await environment.advance(1);
    environment.block(200);
    await environment.advance(1_000);

    expect(endedAfter).toEqual([261]);
  });

  it.each([
    ['before its time is over', 0],
    ['when it has its time once more', 60],
  ])('is ended by whoever needs it no longer, %s', async (_when, busy) => {
    const { environment, timer, endedAfter } = setUp();

    environment.block(busy);
    await environment.advance(1);
    timer.stop();
    await environment.advance(1_000);

    expect(endedAfter).toEqual([]);
    expect(environment.pendingTimers).toBe(0);
  });
});

describe('a process that is busy for longer than its nodes may take, right after it has asked', () => {
  it('gets its lock, extends it and releases it all the same', async () => {
    const nodes = startNodes(await Promise.all([farServer(), farServer(), farServer()]));
    await nodes.whenReady(5_000);
    const redlock = new Redlock(nodes.nodes, { quarantine: false, nodeTimeout: 50 });

    for (let round = 0; round < 5; round += 1) {
      const acquired = redlock.acquire('a', 5_000, { wait: 0 });
      blockFor(100);
      const lock = await acquired;
      const extended = lock.extend();
      blockFor(100);
      await extended;
      const released = lock.release();
      blockFor(100);
      await released;

      expect(await redlock.inspect('a')).toMatchObject({ state: 'free' });
    }
    await redlock.close();
  });
});

/** A server whose answers take some turns of the event loop. */
async function farServer(): Promise<string> {
  const { url } = await startProxy(await startServer());
  return url;
}
