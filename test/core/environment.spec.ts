import { describe, expect, it, jest } from '@jest/globals';

import { createHook } from 'node:async_hooks';
import { MessageChannel } from 'node:worker_threads';

import {
  bindToContext,
  fakeTimersEnvironment,
  systemEnvironment,
  toIsoTime,
} from '../../lib/core/environment.js';
import { silentObserver } from '../../lib/core/observer.js';
import { afterTest } from '../support/after-test.js';

describe("the process's own environment", () => {
  it('has a monotonic clock with fractions of milliseconds', () => {
    const first = systemEnvironment.now();
    const second = systemEnvironment.now();

    expect(second).toBeGreaterThanOrEqual(first);
    expect(Math.abs(first - performance.now())).toBeLessThan(60_000);
  });

  it('has the wall clock', () => {
    expect(Math.abs(systemEnvironment.wallClock() - Date.now())).toBeLessThan(60_000);
  });

  it('writes a moment of the wall clock for people', () => {
    expect(toIsoTime(1_767_225_600_000)).toBe('2026-01-01T00:00:00.000Z');
  });

  it.each([true, false])(
    'calls back after a delay (keeps the process alive: %p)',
    async (holds) => {
      const keepAlive = setTimeout(() => undefined, 10_000);

      await new Promise<void>((resolve) => systemEnvironment.startTimer(1, resolve, holds));

      clearTimeout(keepAlive);
    },
  );

  it.each([true, false])(
    'has timers of which those only hold the process that say so: %p',
    (holds) => {
      const timer = systemEnvironment.startTimer(10_000, () => undefined, holds) as NodeJS.Timeout;

      expect(timer.hasRef()).toBe(holds);
      systemEnvironment.stopTimer(timer);
    },
  );

  it('does not call back for a stopped timer, and stops it twice without harm', async () => {
    const callback = jest.fn();
    const timer = systemEnvironment.startTimer(1, callback, true);

    systemEnvironment.stopTimer(timer);
    systemEnvironment.stopTimer(timer);
    systemEnvironment.stopTimer(null);
    await new Promise<void>((resolve) => systemEnvironment.startTimer(3, resolve, true));

    expect(callback).not.toHaveBeenCalled();
  });

  it.each([true, false])(
    'calls back after what arrived while the process was blocked, unless that stops it: %p',
    async (isStopped) => {
      const callback = jest.fn();
      const { port1, port2 } = new MessageChannel();
      const arrived = new Promise((resolve) => port2.once('message', resolve));
      const arrival = arrived.then(() => {
        expect(callback).not.toHaveBeenCalled();
        if (isStopped) systemEnvironment.stopTimer(timer);
      });

      // In this phase of the event loop, for timers are what comes next.
      await new Promise<void>((resolve) => setImmediate(resolve));
      const timer = systemEnvironment.startTimer(1, callback, true);
      port1.postMessage('answer');
      const until = systemEnvironment.now() + 5;
      while (systemEnvironment.now() < until);
      await arrival;

      await new Promise<void>((resolve) => systemEnvironment.startTimer(3, resolve, true));
      port1.close();
      expect(callback).toHaveBeenCalledTimes(isStopped ? 0 : 1);
    },
  );

  it('has random numbers of at least 0 and below 1, and ids that never repeat', () => {
    const numbers = Array.from({ length: 100 }, () => systemEnvironment.random());
    const ids = Array.from({ length: 100 }, () => systemEnvironment.randomId());

    expect(numbers.every((number) => number >= 0 && number < 1)).toBe(true);
    expect(new Set(ids).size).toBe(100);
    expect(ids.every((id) => /^[0-9a-f]{32}$/.test(id))).toBe(true);
  });

  it('has the timers of Node also where a test environment has those of a browser', async () => {
    const { setTimeout, setImmediate, clearImmediate } = globalThis;
    afterTest(() => void Object.assign(globalThis, { setTimeout, setImmediate, clearImmediate }));
    const inBrowser = { setTimeout: () => 1, setImmediate: undefined, clearImmediate: undefined };
    Object.assign(globalThis, inBrowser);
    jest.resetModules();
    const loaded = await import('../../lib/core/environment.js');

    await new Promise<void>((resolve) => loaded.systemEnvironment.startTimer(1, resolve, true));
    const timer = loaded.systemEnvironment.startTimer(10_000, () => undefined, false);
    loaded.systemEnvironment.stopTimer(timer);
    const faked = loaded.fakeTimersEnvironment();

    expect(loaded.systemEnvironment).not.toBe(systemEnvironment);
    expect(faked.startTimer(1, () => undefined, false)).toBe(1);
  });

  it('is not moved by fake timers of an application that is tested', () => {
    const before = systemEnvironment.wallClock();
    jest.useFakeTimers({ now: 0 });

    const during = systemEnvironment.wallClock();

    jest.useRealTimers();
    expect(during).toBeGreaterThanOrEqual(before);
  });
});

describe('the environment for fake timers', () => {
  it('moves with them, and stops those that it has started', () => {
    afterTest(() => jest.useRealTimers());
    const environment = fakeTimersEnvironment();
    jest.useFakeTimers();
    const startedAt = environment.now();
    const callback = jest.fn();
    const stopped = environment.startTimer(10, callback, true);
    environment.startTimer(20, callback, true);

    environment.stopTimer(stopped);
    const waiting = jest.getTimerCount();
    jest.advanceTimersByTime(20);

    expect([waiting, environment.now() - startedAt]).toEqual([1, 20]);
    expect(callback).toHaveBeenCalledTimes(1);
  });
});

describe('a function that is bound to its context', () => {
  it('does not look to test runners as if it kept the process alive', () => {
    const made: object[] = [];
    const hook = createHook({ init: (_id, _type, _trigger, resource) => made.push(resource) });

    hook.enable();
    bindToContext(() => undefined);
    hook.disable();

    // As `jest --detectOpenHandles` asks: what gives no answer, it takes for open.
    expect(made).toEqual([expect.objectContaining({ hasRef: expect.any(Function) })]);
    expect(made.map((resource) => (resource as NodeJS.Timeout).hasRef())).toEqual([false]);
  });
});

describe('the observer that nobody gave', () => {
  it('is silent', () => {
    const error = new Error('refused');

    expect(silentObserver.refused(['r'], error, 0, 0, false)).toBeUndefined();
  });
});
