// How long a process waits before it races others for a released lock.
import { describe, expect, it } from '@jest/globals';

import { setUp } from './waiting-scene.js';

describe('the delay before a race', () => {
  async function raceDelays(listeners: number, races: number): Promise<number[]> {
    const { environment, nodes, waitingRoom, enter } = setUp();
    const waiter = enter('r');
    waitingRoom.listen(waiter);
    await environment.settle();
    for (const node of nodes) node.forgeWakeUp('r', listeners);
    await environment.settle();
    return Array.from({ length: races }, () => waitingRoom.raceDelay(waiter));
  }

  it('is none for the only one who was woken', async () => {
    expect(await raceDelays(1, 2)).toEqual([0, 0]);
  });

  it('is 1 ms, and at random up to 2 ms more for each who was woken', async () => {
    const delays = await Promise.all(
      Array.from({ length: 4 }, async (_, index) => (await raceDelays(index + 2, 1))[0] ?? 0),
    );

    expect(Math.min(...delays)).toBeGreaterThan(1);
    delays.forEach((delay, index) => expect(delay).toBeLessThan(1 + 2 * (index + 2)));
    // The same random number each time.
    const shares = delays.map((delay, index) => (delay - 1) / (index + 2));
    for (const share of shares) expect(share).toBeCloseTo(shares[0] ?? 0, 6);
  });

  it('is another one each time', async () => {
    const [first = 0, second = 0] = await raceDelays(8, 2);

    expect(second - 1).not.toBeCloseTo((first - 1) / 2);
  });

  it('is none for who has lost to each of the others', async () => {
    const delays = await raceDelays(4, 6);

    expect(delays.map((delay) => delay > 1)).toEqual([true, true, true, false, false, false]);
  });

  it('counts no race that nobody else was woken for', async () => {
    const { environment, nodes, waitingRoom, enter } = setUp();
    const waiter = enter('r');
    waitingRoom.listen(waiter);
    await environment.settle();
    const delays: number[] = [];

    for (const listeners of [1, 1, 2]) {
      for (const node of nodes) node.forgeWakeUp('r', listeners);
      await environment.settle();
      delays.push(waitingRoom.raceDelay(waiter));
    }

    expect(delays.map((delay) => delay > 1)).toEqual([false, false, true]);
  });

  it('is drawn again by who has had the lock since', async () => {
    const { environment, nodes, waitingRoom, enter, grant } = setUp();
    const [first, second] = [enter('r'), enter('r')];
    waitingRoom.listen(first);
    await environment.settle();
    for (const node of nodes) node.forgeWakeUp('r', 2);
    await environment.settle();
    const delays = [waitingRoom.raceDelay(first), waitingRoom.raceDelay(first)];

    grant(first);
    waitingRoom.leave(first);
    delays.push(waitingRoom.raceDelay(second));

    expect(delays.map((delay) => delay > 1)).toEqual([true, false, true]);
  });

  it('is none for who comes when nobody wanted the resource for a while', async () => {
    const { environment, nodes, waitingRoom, enter } = setUp();
    waitingRoom.settle(['r'], 8);
    const first = enter('r');
    waitingRoom.listen(first);
    await environment.settle();
    for (const node of nodes) node.forgeWakeUp('r', 8);
    await environment.settle();
    waitingRoom.leave(first);

    await environment.advance(10);

    expect(waitingRoom.raceDelay(enter('r'))).toBe(0);
  });

  it('is beyond 1 ms half as long after each race', async () => {
    const delays = await raceDelays(12, 10);

    expect(delays[9]).toBeGreaterThan(1);
    expect(delays[9]).toBeLessThan(1 + 16 / 2 ** 9);
  });

  it('is no longer for a crowd, or for a forged number', async () => {
    const [delay] = await raceDelays(1_000_000, 1);

    expect(delay).toBeLessThan(17);
  });
});
