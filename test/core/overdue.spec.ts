// Processes that wait far beyond their turn, and those that rest for them.
import { describe, expect, it } from '@jest/globals';

import { toldTo } from '../support/test-node.js';
import { setUp } from './waiting-scene.js';
import type { Milliseconds } from '../../lib/core/units.js';

/** A process that waits for a resource, and hears every 50 ms that another one has released it. */
async function listen() {
  const scene = setUp();
  const { environment, nodes, waitingRoom, enter, tellOf, mayTry } = scene;
  const waiter = enter('r');
  waitingRoom.listen(waiter);
  await environment.settle();
  const hear = async (times: number, listeners: number, overdue = 0): Promise<void> => {
    for (let time = 0; time < times; time += 1) {
      await environment.advance(50);
      await tellOf(['r'], listeners, overdue);
    }
  };
  /** On how many nodes it says that it is overdue. */
  const claims = (): number =>
    nodes.filter((node) => node.listenersOf('redlock:overdue:r') > 0).length;
  /** For how long the process goes on to rest, in ms. */
  const rest = async (): Promise<Milliseconds> => {
    const before = environment.now();
    while (!mayTry(waiter)) await environment.advance(1);
    return environment.now() - before;
  };
  return { ...scene, waiter, hear, claims, rest };
}

describe('a process that waits', () => {
  it.each([
    ['a quarter of a second after the first release', 6, 2],
    ['two and a half turns of each of the others', 25, 10],
  ])('is overdue after %s, not before', async (_, times, listeners) => {
    const { claims, hear } = await listen();

    await hear(times - 1, listeners);
    const before = claims();
    await hear(1, listeners);

    expect([before, claims()]).toEqual([0, 3]);
  });

  it('is not overdue any more once it has had its turn', async () => {
    const { waitingRoom, waiter, enter, grant, claims, hear } = await listen();
    await hear(6, 1);
    const said = [claims()];

    enter('r');
    grant(waiter);
    said.push(claims());
    waitingRoom.handOn(waiter);
    // Of which it hears, too.
    await hear(1, 1);
    for (const times of [5, 1]) {
      await hear(times, 1);
      said.push(claims());
    }

    expect(said).toEqual([3, 0, 0, 3]);
  });

  it('says nothing any more when its last call has given up', async () => {
    const { waitingRoom, waiter, claims, hear } = await listen();
    await hear(6, 1);
    const before = claims();

    waitingRoom.leave(waiter);

    expect([before, claims()]).toEqual([3, 0]);
  });

  it('asks half as often after others have rested for it in vain', async () => {
    const { claims, hear } = await listen();
    const said: number[] = [];
    for (const times of [6, 3, 1, 9, 1]) {
      await hear(times, 1, 1);
      said.push(claims());
    }

    expect(said).toEqual([3, 3, 0, 0, 3]);
  });

  it('tries at once when it is overdue, or draws a turn if others are as well', async () => {
    const { environment, waiter, hear, untilTurn } = await listen();
    environment.random = () => 0.5;
    await hear(11, 4);
    const delays: Milliseconds[] = [];
    for (const overdue of [1, 2]) {
      await hear(1, 4, overdue);
      delays.push(untilTurn(waiter));
    }

    expect(delays).toEqual([0, 1 + 3 * 1]);
  });
});

describe('others than those who are overdue', () => {
  it.each(['told', 'heard'])('rest for 100 ms after a release that was %s', async (how) => {
    const { waitingRoom, hear, rest } = await listen();

    if (how === 'told') waitingRoom.onReleased(['r'], toldTo(1, 1));
    else await hear(1, 1, 1);

    expect(await rest()).toBe(100);
  });

  it('go on as soon as one has come, and released it', async () => {
    const { mayTry, waiter, hear } = await listen();
    await hear(1, 1, 1);
    const before = mayTry(waiter);

    await hear(1, 1, 0);

    expect([before, mayTry(waiter)]).toEqual([false, true]);
  });

  it('let others be told of their own release first, even if nobody is overdue any more', async () => {
    const { environment, waitingRoom, enter, hold, tellOf, mayTry } = setUp();
    const holder = hold('r');
    const next = enter('r');
    waitingRoom.listen(next);
    await environment.settle();
    await tellOf(['r'], 1, 1);
    await environment.advance(60);

    waitingRoom.handOn(holder);
    // The first is taken for its own.
    for (const times of [1, 2]) await tellOf(['r'], times, 0);

    expect(mayTry(next)).toBe(false);
  });

  it('rest three times at most for the same ones', async () => {
    const { hear, rest } = await listen();
    const rests: Milliseconds[] = [];
    for (const overdue of [1, 1, 1, 1, 1, 2]) {
      await hear(1, 3, overdue);
      rests.push(await rest());
    }

    expect(rests).toEqual([100, 100, 100, 0, 0, 100]);
  });

  it('rest no more often because something else is released each time as well', async () => {
    const { environment, waitingRoom, enter, mayTry } = setUp();
    const next = enter('busy', 'quiet');
    const rests: boolean[] = [];
    for (let time = 0; time < 4; time += 1) {
      waitingRoom.onReleased(['busy', `order:${time}`], toldTo(1, 1));
      await environment.advance(6);
      rests.push(!mayTry(next));
      await environment.advance(100);
    }

    expect(rests).toEqual([true, true, true, false]);
  });
});
