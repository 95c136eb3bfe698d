import { describe, expect, it } from '@jest/globals';

import { CoalescedTimers } from '../../lib/core/coalesced-timers.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';

function setUp() {
  const environment = new SimulatedEnvironment();
  return { environment, timers: new CoalescedTimers(environment) };
}

describe('a coalesced timer', () => {
  it('calls back once, when due or up to 10 ms later, but for what a timer of Node is early', async () => {
    const { environment, timers } = setUp();
    const lateBy: number[] = [];

    for (let delay = 20; delay <= 60; delay += 0.25) {
      const dueAt = environment.now() + delay;
      timers.start(delay, () => lateBy.push(environment.now() - dueAt));
    }
    await environment.advance(1_000);

    expect(lateBy).toHaveLength(161);
    expect(Math.min(...lateBy)).toBeGreaterThan(-1);
    expect(Math.max(...lateBy)).toBeLessThan(10);
  });

  it('ends together with those that would end within 10 ms of it', async () => {
    const { environment, timers } = setUp();
    const moments = new Set<number>();

    for (let delay = 20; delay <= 60; delay += 0.25) {
      timers.start(delay, () => moments.add(environment.now()));
    }
    const pending = environment.pendingTimers;
    await environment.advance(1_000);

    expect(pending).toBe(5);
    expect(moments.size).toBe(5);
  });

  it('is stopped by itself, and leaves no timer behind where it was the last', async () => {
    const { environment, timers } = setUp();
    const called: string[] = [];
    const stopFirst = timers.start(20, () => called.push('first'));
    timers.start(20, () => called.push('second'));

    stopFirst();
    const withOne = environment.pendingTimers;
    await environment.advance(30);
    const stopThird = timers.start(20, () => called.push('third'));
    stopThird();

    expect(withOne).toBe(1);
    expect(environment.pendingTimers).toBe(0);
    expect(called).toEqual(['second']);
  });

  it('calls back also where one was stopped that would have ended with it', async () => {
    const { environment, timers } = setUp();
    const called: string[] = [];

    timers.start(20, () => called.push('first'))();
    timers.start(20, () => called.push('second'));
    await environment.advance(30);

    expect(called).toEqual(['second']);
  });

  it('calls back also where it is started when one has ended a little early', async () => {
    const { environment, timers } = setUp();
    const called: string[] = [];

    const startSecond = (): unknown => timers.start(0.5, () => called.push('second'));
    timers.start(20, () => queueMicrotask(startSecond));
    await environment.advance(100);

    expect(called).toEqual(['second']);
    expect(environment.pendingTimers).toBe(0);
  });

  it('keeps the process alive, for somebody waits for it', () => {
    const { environment, timers } = setUp();

    timers.start(20, () => undefined);

    expect(environment.processHoldingTimers).toBe(1);
  });
});
