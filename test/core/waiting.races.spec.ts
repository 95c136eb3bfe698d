// How long a process waits before it races others for a released lock.
import { describe, expect, it } from '@jest/globals';

import { toldTo } from '../support/test-node.js';
import { watch } from './scene.js';
import { setUp } from './waiting-scene.js';
import type { Place } from '../../lib/core/line.js';

describe('the delay before a race', () => {
  /** A process that waits for `r`, and what it hears of releases. */
  async function listen() {
    const scene = setUp();
    const { environment, waitingRoom, enter, tellOf } = scene;
    const waiter = enter('r');
    waitingRoom.listen(waiter);
    await environment.settle();
    const [{ line }] = waiter.places as [Place];
    const raceDelay = (): number => line.turns.turnAt - environment.now();
    /** Gives the delay after all nodes have told of a release. */
    const hear = async (others: number): Promise<number> => {
      await tellOf(['r'], others);
      return raceDelay();
    };
    return { ...scene, waiter, line, raceDelay, hear };
  }

  /** The same where every random number is one half. */
  async function listenEvenly() {
    const scene = await listen();
    scene.environment.random = () => 0.5;
    return scene;
  }

  it('is none for the only one who was woken', async () => {
    const { hear } = await listen();

    expect([await hear(1), await hear(1)]).toEqual([0, 0]);
  });

  it('is 1 ms, and at random up to 3 ms more for each who was woken', async () => {
    const delays: number[] = [];
    for (let draw = 0; draw < 200; draw += 1) {
      const { environment, hear } = await listen();
      for (let skipped = 0; skipped < draw; skipped += 1) environment.random();
      delays.push(await hear(4));
    }

    expect(Math.min(...delays)).toBeGreaterThanOrEqual(1);
    expect(Math.min(...delays)).toBeLessThan(2);
    expect(Math.max(...delays)).toBeGreaterThan(1 + 3 * 3.75);
    expect(Math.max(...delays)).toBeLessThan(1 + 3 * 4.25);
  });

  it('is another one each time, by up to a quarter of a turn more or less', async () => {
    const { environment, hear } = await listenEvenly();
    await hear(8);

    environment.random = () => 0;
    const least = await hear(8);
    environment.random = () => 1;

    expect([least, await hear(8)]).toEqual([1 + 3 * 2.75, 1 + 3 * 2.25]);
  });

  it('is 3 ms less after each release, and none for who has lost to all ahead of it', async () => {
    const { hear } = await listenEvenly();
    const delays: number[] = [];
    for (let race = 0; race < 6; race += 1) delays.push(await hear(8));

    expect(delays).toEqual([13, 10, 7, 4, 0, 0]);
  });

  it('is no longer than for all who are left', async () => {
    const { hear } = await listenEvenly();
    await hear(1_000_000);

    expect(await hear(4)).toBe(1 + 3 * 3);
  });

  describe('counts a release once', () => {
    /** Some nodes tell of a release, each as often as it is named; gives the delay after that. */
    async function listenToEach() {
      const scene = await listenEvenly();
      const { environment, nodes, raceDelay, hear } = scene;
      const tell = async (...told: readonly number[]): Promise<number> => {
        for (const index of told) nodes[index]?.forgeWakeUp('r', toldTo(8));
        await environment.settle();
        return raceDelay();
      };
      expect(await hear(8)).toBe(13);
      return { ...scene, tell };
    }

    it('though a third node tells of it late, and the first already of the next', async () => {
      const { tell } = await listenToEach();

      const delays = [await tell(0, 1), await tell(0), await tell(2), await tell(1), await tell(2)];

      expect(delays).toEqual([10, 10, 10, 7, 7]);
    });

    it('though an attempt began before the third node told of it', async () => {
      const { waitingRoom, waiter, tell } = await listenToEach();

      const delays = [await tell(0, 1)];
      waitingRoom.noteAttempt(waiter);
      delays.push(await tell(2), await tell(0), await tell(1));

      expect(delays).toEqual([10, 10, 10, 7]);
    });

    it('though a node tells of it twice', async () => {
      const { tell } = await listenToEach();

      const delays = [await tell(0, 0), await tell(1), await tell(2), await tell(1), await tell(0)];

      expect(delays).toEqual([13, 10, 10, 10, 7]);
    });

    it('and waits for one late word of a node, however many it has missed', async () => {
      const { tell } = await listenToEach();

      const delays = [await tell(0, 1), await tell(0, 1), await tell(2), await tell(1, 2)];

      expect(delays).toEqual([10, 7, 7, 4]);
    });

    it('and waits for no late word of a connection that was lost', async () => {
      const { environment, nodes, tell } = await listenToEach();

      const delays = [await tell(0, 1)];
      nodes[2]?.restart();
      await environment.settle();
      delays.push(await tell(1, 2));

      expect(delays).toEqual([10, 7]);
    });
  });

  it('is drawn anew by who met others', async () => {
    const { line, raceDelay, hear } = await listenEvenly();
    const delays = [await hear(8), await hear(8)];

    line.turns.forget();

    // Until it hears of a release, it has none to wait for.
    expect(raceDelay()).toBeLessThan(0);
    expect([...delays, await hear(8)]).toEqual([13, 10, 13]);
  });

  it('is that of the last for who has released the lock, whose nodes tell it of that as well', async () => {
    const { waitingRoom, enter, waiter, grant, raceDelay, hear } = await listenEvenly();
    await hear(8);
    enter('r');
    grant(waiter);

    waitingRoom.handOn(waiter);
    expect(raceDelay()).toBeLessThan(0);
    await hear(8);

    expect([await hear(8), await hear(8)]).toEqual([1 + 3 * 7, 1 + 3 * 6]);
  });

  it('is that of the last, too, for who could not hear of its own release', async () => {
    const { environment, waitingRoom, enter, hold, tellOf } = setUp();
    environment.random = () => 0.5;
    waitingRoom.handOn(hold('r'));
    waitingRoom.onReleased(['r'], toldTo(1));
    const next = enter('r');
    waitingRoom.listen(next);
    await environment.settle();

    await tellOf(['r'], 8);

    expect((next.places[0]?.line.turns.turnAt ?? 0) - environment.now()).toBe(1 + 3 * 7);
  });

  /** A process that waits for two resources, where every random number is the same. */
  async function listenToBoth(random: number) {
    const scene = setUp();
    const { environment, waitingRoom, enter } = scene;
    environment.random = () => random;
    const both = enter('busy', 'quiet');
    waitingRoom.listen(both);
    await environment.settle();
    return { ...scene, both };
  }

  it('begins with the release: those of another resource do not prolong it', async () => {
    const { environment, waitingRoom, both, tellOf } = await listenToBoth(0.5);
    const [rest, patience] = [() => 50, () => 60_000];
    const isTurn = watch(waitingRoom.restUntilTurn(both, rest, patience));

    await tellOf(['quiet'], 8);
    for (let passed = 0; passed < 14; passed += 2) {
      await environment.advance(2);
      await tellOf(['busy'], 1);
    }

    expect(isTurn()).toBe(true);
  });

  it('is none for who comes when nobody wanted the resource for a while', async () => {
    const { environment, waitingRoom, waiter, enter, hear } = await listen();
    await hear(8);
    waitingRoom.leave(waiter);
    await environment.advance(10);

    expect(enter('r').places[0]?.line.turns.turnAt).toBe(0);
  });
});
