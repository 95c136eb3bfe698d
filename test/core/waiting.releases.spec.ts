// Whose turn it is when a lock is released.
import { describe, expect, it } from '@jest/globals';

import { growth, LINEAR } from '../support/growth.js';
import { toldTo } from '../support/test-node.js';
import { watch } from './scene.js';
import { namesOf, setUp } from './waiting-scene.js';

describe('a lock that is released', () => {
  it('is handed on to the next call of the process, 16 times in a row', () => {
    const { waitingRoom, enter, grant, hold } = setUp();
    let holder = hold('r');
    const outcomes: boolean[] = [];

    for (let count = 0; count < 17; count += 1) {
      const next = enter('r');
      void next.pause(1_000);
      outcomes.push(waitingRoom.handOn(holder).length > 0);
      grant(next);
      holder = next;
    }

    expect(outcomes).toEqual([...Array<boolean>(16).fill(true), false]);
  });

  it.each([
    { heldFor: [50], isHandedOn: true },
    { heldFor: [51], isHandedOn: false },
    { heldFor: [30, 20], isHandedOn: true },
    { heldFor: [30, 30], isHandedOn: false },
    { heldFor: [60, 40], isHandedOn: true },
  ])('by who held it for $heldFor ms, is handed on: $isHandedOn', async (run) => {
    const { environment, waitingRoom, enter, grant, hold, mayTry } = setUp();
    let holder = hold('r');
    let isHandedOn = true;

    for (const length of run.heldFor) {
      await environment.advance(length);
      const next = enter('r');
      void next.pause(1_000);
      isHandedOn = waitingRoom.handOn(holder).length > 0;
      expect(mayTry(next)).toBe(isHandedOn);
      waitingRoom.onReleased(['r'], toldTo(0));
      grant(next);
      holder = next;
    }

    expect(isHandedOn).toBe(run.isHandedOn);
  });

  it.each([
    { waited: 480, others: 2, handedOnFor: 120 },
    { waited: 480, others: 1, handedOnFor: 200 },
    // Less than 50 ms: by number, as usual.
    { waited: 190, others: 2, handedOnFor: 32 },
  ])(
    'is handed on for $handedOnFor ms by a process that waited for $waited ms with $others others',
    async ({ waited, others, handedOnFor }) => {
      const { environment, waitingRoom, enter, grant, hold, tellOf } = setUp();
      const before = hold('r');
      let holder = enter('r');
      waitingRoom.handOn(before);
      waitingRoom.listen(holder);
      await environment.settle();
      await tellOf(['r'], others);
      await environment.advance(waited);
      grant(holder);
      const from = environment.now();
      let last = from;

      for (let count = 0; count < 200; count += 1) {
        await environment.advance(2);
        const next = enter('r');
        void next.pause(1_000);
        if (waitingRoom.handOn(holder).length === 0) break;
        last = environment.now();
        grant(next);
        holder = next;
      }

      expect(last - from).toBe(handedOnFor);
    },
  );

  it('is handed on by who had to wait for another process as if for the first time', async () => {
    const { environment, waitingRoom, enter, grant, hold } = setUp();
    const holder = hold('r');
    const next = enter('r');
    void next.pause(1_000);
    waitingRoom.handOn(holder);
    waitingRoom.onReleased(['r'], toldTo(0));

    // It has tried in vain.
    waitingRoom.listen(next);
    await environment.advance(60);
    grant(next);
    const last = enter('r');
    void last.pause(1_000);

    expect(waitingRoom.handOn(next)).toEqual([last]);
  });

  it('is handed on at once: the next call is awake before the release is sent', async () => {
    const { environment, waitingRoom, enter, hold } = setUp();
    const holder = hold('r');
    const isAwake = watch(enter('r').pause(1_000));

    waitingRoom.handOn(holder);
    await environment.settle();

    expect(isAwake()).toBe(true);
  });

  it('is not handed on to a call that has slept and tries now, but leaves it its turn', async () => {
    const { environment, waitingRoom, enter, hold, mayTry } = setUp();
    const holder = hold('r');
    const next = enter('r');
    void next.pause(10);
    await environment.advance(20);

    const calls = waitingRoom.handOn(holder);

    expect(calls).toEqual([]);
    expect(mayTry(next)).toBe(true);
  });

  it('is not handed on where nobody waits, or not for all of its resources', () => {
    const { waitingRoom, enter, hold } = setUp();
    const alone = hold('r');
    const wide = hold('a', 'b');
    void enter('a').pause(1_000);

    expect(waitingRoom.handOn(alone)).toEqual([]);
    expect(waitingRoom.handOn(wide)).toEqual([]);
  });

  it.each([
    ['that is held by this process', true],
    ['that another process may hold', false],
  ])('is not handed on to a call that wants another lock too, %s', (_, isHeldHere) => {
    const { waitingRoom, enter, hold } = setUp();
    const holder = hold('a');
    if (isHeldHere) hold('b');
    void enter('a', 'b').pause(1_000);

    expect(waitingRoom.handOn(holder)).toEqual([]);
  });

  it('is handed on to a call that wants some of its resources, where others want the rest', () => {
    const { waitingRoom, enter, hold } = setUp();
    const holder = hold('a', 'b', 'c');
    const [one, other] = [enter('a', 'b'), enter('c')];
    for (const waiter of [one, other]) void waiter.pause(1_000);

    expect(waitingRoom.handOn(holder)).toEqual([one, other]);
  });

  it('of thousands of resources is handed on, and looks at each of them once', async () => {
    const prepare = (count: number) => {
      const { waitingRoom, enter, hold } = setUp();
      const holder = hold(...namesOf(count));
      const next = enter(...namesOf(count));
      void next.pause(1_000);
      return () => expect(waitingRoom.handOn(holder)).toEqual([next]);
    };

    expect(await growth(prepare, 3_000)).toBeLessThan(LINEAR);
  });

  it('is not handed on by a call whose lock was lost: others may have it', () => {
    const { waitingRoom, enter, hold } = setUp();
    const holder = hold('r');
    void enter('r').pause(1_000);
    waitingRoom.leave(holder);

    expect(waitingRoom.handOn(holder)).toEqual([]);
  });

  it('lets its process ask again only when the others are told, after 16 in a row', async () => {
    const { environment, waitingRoom, enter, hold, handOnToTheLimit, mayTry } = setUp();
    const holder = handOnToTheLimit(hold('r'));
    const last = enter('r');
    void last.pause(1_000);

    waitingRoom.handOn(holder);
    await environment.settle();
    const whileTold = mayTry(last);
    const isAwake = watch(last.pause(1_000));
    waitingRoom.onReleased(['r'], toldTo(0));
    await environment.settle();

    expect(whileTold).toBe(false);
    expect(mayTry(last)).toBe(true);
    expect(isAwake()).toBe(true);
  });

  it('lets other processes go first for 5 ms, where any were told', async () => {
    const { environment, waitingRoom, enter, hold, mayTry } = setUp();
    waitingRoom.handOn(hold('r'));

    waitingRoom.onReleased(['r'], toldTo(1));
    const late = enter('r');
    await environment.advance(4.5);
    const whileTheyGo = mayTry(late);
    const timersHoldingTheProcess = environment.processHoldingTimers;
    await environment.advance(1);

    expect(whileTheyGo).toBe(false);
    expect(timersHoldingTheProcess).toBe(0);
    expect(mayTry(late)).toBe(true);
    expect(environment.pendingTimers).toBe(0);
  });
});
