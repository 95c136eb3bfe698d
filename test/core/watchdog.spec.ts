import { describe, expect, it, jest } from '@jest/globals';

import { AsyncLocalStorage } from 'node:async_hooks';

import { Watchdog } from '../../lib/core/watchdog.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';

function setUp() {
  const environment = new SimulatedEnvironment({ now: 1_000 });
  return { environment, watchdog: new Watchdog(environment) };
}

function watched() {
  return { onDue: jest.fn() };
}

describe('the watchdog', () => {
  it('calls back once, when due or up to 10 ms earlier, never later', async () => {
    const { environment, watchdog } = setUp();
    const one = watched();
    const calledAt: number[] = [];
    one.onDue.mockImplementation(() => calledAt.push(environment.now()));

    for (let dueAt = 1_101; dueAt < 1_120; dueAt += 1) {
      const each = { onDue: () => calledAt.push(environment.now() - dueAt) };
      watchdog.watch(each, dueAt);
    }
    await environment.advance(1_000);

    expect(calledAt).toHaveLength(19);
    expect(Math.max(...calledAt)).toBeLessThanOrEqual(0);
    expect(Math.min(...calledAt)).toBeGreaterThan(-10);
  });

  it('needs one timer for all locks, and none when nothing is watched', async () => {
    const { environment, watchdog } = setUp();
    const many = Array.from({ length: 100 }, watched);

    many.forEach((each, index) => watchdog.watch(each, 2_000 + 10 * index));
    const timersWhileWatching = environment.pendingTimers;
    for (const each of many) watchdog.unwatch(each);

    expect(timersWhileWatching).toBe(1);
    expect(environment.pendingTimers).toBe(0);
    await environment.advance(10_000);
    expect(many.filter(({ onDue }) => onDue.mock.calls.length > 0)).toEqual([]);
  });

  it('looks after all in the async context of its start, whoever has the timer', async () => {
    const { environment, watchdog } = setUp();
    const storage = new AsyncLocalStorage<string>();
    const onDue = jest.fn(() => storage.getStore());

    storage.run('first', () => watchdog.watch({ onDue }, 1_100));
    storage.run('second', () => watchdog.watch({ onDue }, 1_200));
    await storage.run('whoever', () => environment.advance(1_000));

    expect(onDue.mock.results.map(({ value }) => value)).toEqual([undefined, undefined]);
  });

  it('spreads locks that are due together: at most 128 in 10 ms, none late, none in half the time', async () => {
    const { environment, watchdog } = setUp();
    const calledAt: number[] = [];
    const crowd = Array.from({ length: 1_000 }, () => ({
      onDue: () => void calledAt.push(environment.now()),
    }));

    for (const each of crowd) watchdog.watch(each, 2_000);
    await environment.advance(1_000);

    const perSlot = new Map<number, number>();
    for (const at of calledAt) perSlot.set(at, (perSlot.get(at) ?? 0) + 1);
    expect(calledAt).toHaveLength(1_000);
    expect([...perSlot.values()]).toEqual([104, 128, 128, 128, 128, 128, 128, 128]);
    expect(Math.max(...calledAt)).toBe(2_000);
    expect(Math.min(...calledAt)).toBe(1_930);
  });

  it('extends a crowd together rather than late, where there is no time to spread it', async () => {
    const { environment, watchdog } = setUp();
    const calledAt: number[] = [];

    for (let count = 0; count < 1_000; count += 1) {
      watchdog.watch({ onDue: () => void calledAt.push(environment.now()) }, 1_020);
    }
    await environment.advance(100);

    expect(calledAt).toHaveLength(1_000);
    expect(Math.min(...calledAt)).toBeGreaterThanOrEqual(1_010);
    expect(Math.max(...calledAt)).toBe(1_020);
  });

  it('never keeps a process alive', () => {
    const { environment, watchdog } = setUp();

    watchdog.watch(watched(), 2_000);

    expect(environment.processHoldingTimers).toBe(0);
  });

  it('replaces the earlier date of the same lock', async () => {
    const { environment, watchdog } = setUp();
    const one = watched();

    watchdog.watch(one, 1_100);
    watchdog.watch(one, 1_300);
    await environment.advance(200);
    const callsBefore = one.onDue.mock.calls.length;
    await environment.advance(200);

    expect(callsBefore).toBe(0);
    expect(one.onDue).toHaveBeenCalledTimes(1);
  });

  it('takes an earlier date than the one it sleeps for', async () => {
    const { environment, watchdog } = setUp();
    const [late, early] = [watched(), watched()];

    watchdog.watch(late, 5_000);
    watchdog.watch(early, 1_100);
    await environment.advance(101);

    expect(early.onDue).toHaveBeenCalledTimes(1);
    expect(late.onDue).not.toHaveBeenCalled();
    expect(environment.pendingTimers).toBe(1);
  });

  it.each([
    [1_100, 1_300, 5_000],
    [5_000, 1_300, 1_100],
  ])(
    'sleeps until the earliest of those that are left, however they came: %d, %d, %d',
    async (...dates) => {
      const { environment, watchdog } = setUp();
      const all = dates.map((dueAt) => {
        const one = watched();
        watchdog.watch(one, dueAt);
        return one.onDue;
      });

      await environment.advance(301);

      expect(all.map(({ mock }) => mock.calls.length)).toEqual(
        dates.map((dueAt) => Number(dueAt < 5_000)),
      );
    },
  );

  it('goes on with the others when its next one was withdrawn', async () => {
    const { environment, watchdog } = setUp();
    const [first, second, third] = [watched(), watched(), watched()];
    watchdog.watch(first, 1_100);
    watchdog.watch(second, 1_300);
    watchdog.watch(third, 1_301);

    watchdog.unwatch(first);
    watchdog.unwatch(third);
    await environment.advance(400);

    expect(first.onDue).not.toHaveBeenCalled();
    expect(third.onDue).not.toHaveBeenCalled();
    expect(second.onDue).toHaveBeenCalledTimes(1);
  });

  it('does not call a lock that another one withdrew at the same moment', async () => {
    const { environment, watchdog } = setUp();
    const [same, later] = [watched(), watched()];
    const first = {
      onDue: () => {
        watchdog.unwatch(same);
        watchdog.unwatch(later);
      },
    };
    watchdog.watch(first, 1_100);
    watchdog.watch(same, 1_101);
    watchdog.watch(later, 1_106);

    environment.block(500);
    await environment.advance(10);

    expect(same.onDue).not.toHaveBeenCalled();
    expect(later.onDue).not.toHaveBeenCalled();
    expect(environment.pendingTimers).toBe(0);
  });

  it('lets a lock that was called back be watched again, also for at once', async () => {
    const { environment, watchdog } = setUp();
    let calls = 0;
    const again = {
      onDue: () => {
        calls += 1;
        if (calls < 3) watchdog.watch(again, environment.now());
      },
    };

    watchdog.watch(again, 1_050);
    await environment.advance(100);

    expect(calls).toBe(3);
    expect(environment.pendingTimers).toBe(0);
  });

  it('lets all be watched again that were called back together', async () => {
    const { environment, watchdog } = setUp();
    const calls = [0, 0];
    for (const index of calls.keys()) {
      const again = {
        onDue: () => {
          calls[index] = (calls[index] ?? 0) + 1;
          watchdog.watch(again, environment.now() + 100);
        },
      };
      watchdog.watch(again, 1_100);
    }

    await environment.advance(300);

    expect(calls).toEqual([3, 3]);
  });

  it('calls what is overdue after a blocked event loop in the order of the dates', async () => {
    const { environment, watchdog } = setUp();
    const order: string[] = [];
    watchdog.watch({ onDue: () => order.push('second') }, 1_300);
    watchdog.watch({ onDue: () => order.push('first') }, 1_100);
    watchdog.watch({ onDue: () => order.push('much later') }, 9_000);

    environment.block(1_000);
    await environment.advance(1);

    expect(order).toEqual(['first', 'second']);
  });

  it('does not spin when a timer fires a fraction of a millisecond early', async () => {
    const environment = new SimulatedEnvironment({ now: 1_000.75 });
    const startTimer = jest.spyOn(environment, 'startTimer');
    const watchdog = new Watchdog(environment);
    const one = watched();

    watchdog.watch(one, 1_100);
    await environment.advance(200);

    expect(one.onDue).toHaveBeenCalledTimes(1);
    expect(startTimer.mock.calls.length).toBeLessThanOrEqual(2);
  });

  it('is not disturbed by what it does not know', () => {
    const { environment, watchdog } = setUp();

    watchdog.unwatch(watched());

    expect(environment.pendingTimers).toBe(0);
  });
});
