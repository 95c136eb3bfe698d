import { describe, expect, it } from '@jest/globals';

import { watch } from './scene.js';
import { setUp } from './waiting-scene.js';

describe('a waiter', () => {
  it('sleeps for the delay', async () => {
    const { environment, enter } = setUp();
    const isOver = watch(enter('r').pause(100));

    await environment.advance(99);
    const isOverBefore = isOver();
    const timersHoldingTheProcess = environment.processHoldingTimers;
    await environment.advance(1);

    expect(isOverBefore).toBe(false);
    expect(timersHoldingTheProcess).toBe(1);
    expect(isOver()).toBe(true);
    expect(environment.pendingTimers).toBe(0);
  });

  it('knows whether it was woken or slept to the end', async () => {
    const { environment, enter } = setUp();
    const waiter = enter('r');

    const slept = waiter.pause(10);
    await environment.advance(10);
    const woken = waiter.pause(10);
    waiter.wake();

    expect(await Promise.all([slept, woken])).toEqual([false, true]);
  });

  it('follows a release at once, and no more once it has slept', async () => {
    const { environment, waitingRoom, enter, hold } = setUp();
    const [holder, waiter] = [hold('r'), enter('r')];
    waitingRoom.handOn(holder);
    waitingRoom.noteAttempt(waiter);
    waiter.wake();

    await waiter.pause(10);
    const isSuccessorAtOnce = waiter.isSuccessor;
    const slept = waiter.pause(10);
    await environment.advance(10);
    await slept;

    expect([isSuccessorAtOnce, waiter.isSuccessor]).toEqual([true, false]);
  });

  it('is woken when the one before it leaves', async () => {
    const { environment, waitingRoom, enter } = setUp();
    const [first, second, third] = [enter('r'), enter('r'), enter('r')];
    const [isSecondWoken, isThirdWoken] = [second, third].map((each) => watch(each.pause(1_000)));

    waitingRoom.leave(first);
    await environment.settle();

    expect(isSecondWoken?.()).toBe(true);
    expect(isThirdWoken?.()).toBe(false);
  });

  it.each([
    ['a', 'b'],
    ['b', 'a'],
  ] as const)('is woken once it heads all its queues, %s and then %s', async (first, last) => {
    const { environment, waitingRoom, enter } = setUp();
    const before = { a: enter('a'), b: enter('b') };
    const both = enter('a', 'b');
    const isOver = watch(both.pause(1_000));

    waitingRoom.leave(before[first]);
    await environment.settle();
    const isOverHalfway = isOver();
    waitingRoom.leave(before[last]);
    await environment.settle();

    expect(isOverHalfway).toBe(false);
    expect(isOver()).toBe(true);
  });

  it('that was woken before it sleeps does not sleep', async () => {
    const { environment, enter } = setUp();
    const waiter = enter('r');
    waiter.wake();

    const isFirstOver = watch(waiter.pause(1_000));
    await environment.settle();
    const isSecondOver = watch(waiter.pause(1_000));
    await environment.settle();

    expect(isFirstOver()).toBe(true);
    expect(isSecondOver()).toBe(false);
  });

  it('that was woken goes on, though it was interrupted since: it may stand for others', async () => {
    const { enter } = setUp();
    const waiter = enter('r');
    const pause = waiter.pause(1_000);

    waiter.wake();
    waiter.interrupt(new Error('too late'));

    expect(await pause).toBe(true);
    await expect(waiter.pause(1_000)).rejects.toThrow('too late');
  });

  it('that has forgotten its wake-up sleeps', async () => {
    const { environment, enter } = setUp();
    const waiter = enter('r');
    waiter.wake();

    waiter.isWoken = false;
    const isOver = watch(waiter.pause(1_000));
    await environment.settle();

    expect(isOver()).toBe(false);
  });

  it('gives up with the first reason that it is given', async () => {
    const { environment, enter } = setUp();
    const waiter = enter('r');
    const pause = waiter.pause(1_000);

    waiter.interrupt(new Error('first'));
    waiter.interrupt(new Error('second'));

    await expect(pause).rejects.toThrow('first');
    await expect(waiter.pause(1_000)).rejects.toThrow('first');
    expect(environment.pendingTimers).toBe(0);
  });

  it('that does something else is told of the interruption once', () => {
    const { enter } = setUp();
    const waiter = enter('r');
    let told = 0;
    waiter.attempt = {
      cancel() {
        told += 1;
      },
    };

    waiter.interrupt(new Error('first'));
    waiter.interrupt(new Error('second'));

    expect(told).toBe(1);
  });
});
