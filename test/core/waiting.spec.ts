import { describe, expect, it } from '@jest/globals';

import { Waiter, WaitingRoom } from '../../lib/core/waiting.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';

function setUp() {
  const environment = new SimulatedEnvironment();
  const waitingRoom = new WaitingRoom();
  const enter = (...resources: string[]): Waiter => {
    const waiter = new Waiter(environment, resources);
    waitingRoom.enter(waiter);
    return waiter;
  };
  /** Whether a pause that has been begun is over. */
  const watch = (pause: Promise<void>): (() => boolean) => {
    let isOver = false;
    const note = (): void => {
      isOver = true;
    };
    pause.then(note, note);
    return () => isOver;
  };
  return { environment, waitingRoom, enter, watch };
}

describe('a queue', () => {
  it('serves in the order of arrival', () => {
    const { waitingRoom, enter } = setUp();
    const [first, second, third] = [enter('r'), enter('r'), enter('r')];

    const atFirst = [first, second, third].map((each) => waitingRoom.isFirst(each));
    waitingRoom.leave(first);
    const then = [second, third].map((each) => waitingRoom.isFirst(each));

    expect(atFirst).toEqual([true, false, false]);
    expect(then).toEqual([true, false]);
  });

  it('is one for each resource', () => {
    const { waitingRoom, enter } = setUp();

    const [one, other] = [enter('a'), enter('b')];

    expect(waitingRoom.isFirst(one)).toBe(true);
    expect(waitingRoom.isFirst(other)).toBe(true);
  });

  it('forgets who gives up in the middle of it', () => {
    const { waitingRoom, enter } = setUp();
    const [first, second, third] = [enter('r'), enter('r'), enter('r')];

    waitingRoom.leave(second);
    waitingRoom.leave(first);

    expect(waitingRoom.isFirst(third)).toBe(true);
    expect(waitingRoom.size).toBe(1);
  });

  it('is not disturbed by somebody who leaves twice', () => {
    const { waitingRoom, enter } = setUp();
    const [first, second] = [enter('r'), enter('r')];

    waitingRoom.leave(first);
    waitingRoom.leave(first);

    expect(waitingRoom.isFirst(second)).toBe(true);
    waitingRoom.leave(second);
    waitingRoom.leave(second);
    expect(waitingRoom.size).toBe(0);
  });
});

describe('a call for several resources', () => {
  it('has its turn when it heads all their queues', () => {
    const { waitingRoom, enter } = setUp();
    const [a, b, both] = [enter('a'), enter('b'), enter('a', 'b')];

    waitingRoom.leave(a);
    const halfway = waitingRoom.isFirst(both);
    waitingRoom.leave(b);

    expect(halfway).toBe(false);
    expect(waitingRoom.isFirst(both)).toBe(true);
  });

  it.each([
    ['a', 'b'],
    ['b', 'a'],
  ])('never waits in a ring with overlapping ones (%s left first)', () => {
    const { waitingRoom, enter } = setUp();
    const ring = [enter('a', 'b'), enter('b', 'c'), enter('a', 'c')];

    const served: number[] = [];
    while (waitingRoom.size > 0) {
      const next = ring.findIndex(
        (each, index) => !served.includes(index) && waitingRoom.isFirst(each),
      );
      const waiter = ring[next];
      if (waiter === undefined) break;
      served.push(next);
      waitingRoom.leave(waiter);
    }

    expect(served).toEqual([0, 1, 2]);
  });
});

describe('a waiter', () => {
  it('sleeps for the delay', async () => {
    const { environment, enter, watch } = setUp();
    const isOver = watch(enter('r').pause(100));

    await environment.advance(99);
    const isOverBefore = isOver();
    await environment.advance(1);

    expect(isOverBefore).toBe(false);
    expect(isOver()).toBe(true);
    expect(environment.pendingTimers).toBe(0);
  });

  it('is woken when the one before it leaves', async () => {
    const { environment, waitingRoom, enter, watch } = setUp();
    const [first, second, third] = [enter('r'), enter('r'), enter('r')];
    const [isSecondWoken, isThirdWoken] = [second, third].map((each) => watch(each.pause(1_000)));

    waitingRoom.leave(first);
    await environment.settle();

    expect(isSecondWoken?.()).toBe(true);
    expect(isThirdWoken?.()).toBe(false);
  });

  it('is woken once it heads all its queues, not before', async () => {
    const { environment, waitingRoom, enter, watch } = setUp();
    const [a, b, both] = [enter('a'), enter('b'), enter('a', 'b')];
    const isOver = watch(both.pause(1_000));

    waitingRoom.leave(a);
    await environment.settle();
    const isOverHalfway = isOver();
    waitingRoom.leave(b);
    await environment.settle();

    expect(isOverHalfway).toBe(false);
    expect(isOver()).toBe(true);
  });

  it('is woken by the end of a lock of its process, if it is its turn', async () => {
    const { environment, waitingRoom, enter, watch } = setUp();
    const [head, second] = [enter('r'), enter('r')];
    const [isHeadWoken, isSecondWoken] = [head, second].map((each) => watch(each.pause(1_000)));

    waitingRoom.wake(['r', 'a resource nobody waits for']);
    await environment.settle();

    expect(isHeadWoken?.()).toBe(true);
    expect(isSecondWoken?.()).toBe(false);
  });

  it('that was woken before it sleeps does not sleep: no wake-up is lost', async () => {
    const { environment, enter, watch } = setUp();
    const waiter = enter('r');

    waiter.wake();
    const isOver = watch(waiter.pause(1_000));
    await environment.settle();
    const isSecondOver = watch(waiter.pause(1_000));
    await environment.settle();

    expect(isOver()).toBe(true);
    expect(isSecondOver()).toBe(false);
  });

  it('that is interrupted wakes with the first reason, and sleeps no more', async () => {
    const { environment, enter } = setUp();
    const waiter = enter('r');
    const pause = waiter.pause(1_000).catch((reason: unknown) => reason);
    await environment.settle();

    waiter.interrupt('first');
    waiter.interrupt('second');

    expect(await pause).toBe('first');
    await expect(waiter.pause(1_000)).rejects.toBe('first');
    expect(environment.pendingTimers).toBe(0);
  });

  it('that is interrupted while it does something else is told', () => {
    const { enter } = setUp();
    const waiter = enter('r');
    let times = 0;
    waiter.onInterrupted = () => (times += 1);

    waiter.interrupt('enough');
    waiter.interrupt('again');

    expect(times).toBe(1);
  });
});
