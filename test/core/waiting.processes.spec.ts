import { describe, expect, it } from '@jest/globals';

import type { Waiter } from '../../lib/core/waiter.js';
import { growth, LINEAR } from '../support/growth.js';
import { toldTo } from '../support/test-node.js';
import { watch } from './scene.js';
import { namesOf, setUp } from './waiting-scene.js';

describe('a process that waits for others', () => {
  it('listens on all nodes, and no longer than somebody waits', async () => {
    const { environment, nodes, waitingRoom, enter, grant } = setUp();
    const [first, second] = [enter('r'), enter('r')];

    const isLiveAtOnce = waitingRoom.listen(first);
    await environment.settle();
    const isLive = waitingRoom.listen(first);
    waitingRoom.leave(first);
    const whileOneWaits = nodes.map((node) => node.listenersOf('r'));
    grant(second);

    expect([isLiveAtOnce, isLive]).toEqual([false, true]);
    expect(whileOneWaits).toEqual([1, 1, 1]);
    expect(nodes.map((node) => node.listenersOf('r'))).toEqual([0, 0, 0]);
  });

  it('listens anew for who comes when the last that waited has got the lock', async () => {
    const { environment, nodes, waitingRoom, enter, grant } = setUp();
    const first = enter('r');
    waitingRoom.listen(first);
    await environment.settle();
    grant(first);

    const late = enter('r');
    const isLiveAtOnce = waitingRoom.listen(late);
    await environment.settle();

    expect([isLiveAtOnce, waitingRoom.listen(late)]).toEqual([false, true]);
    expect(nodes.map((node) => node.listenersOf('r'))).toEqual([1, 1, 1]);
  });

  it('is not live for a call that wants another resource too, until that is heard as well', async () => {
    const { environment, waitingRoom, enter } = setUp();
    waitingRoom.listen(enter('b'));
    await environment.settle();
    const both = enter('a', 'b');

    const isLiveAtOnce = waitingRoom.listen(both);
    await environment.settle();

    expect(isLiveAtOnce).toBe(false);
    expect(waitingRoom.listen(both)).toBe(true);
  });

  it('is not live until a quorum of nodes hears it', async () => {
    const { environment, nodes, waitingRoom, enter } = setUp();
    for (const node of nodes.slice(1)) node.isDeaf = true;
    const waiter = enter('r');
    waitingRoom.listen(waiter);
    await environment.settle();

    expect(waitingRoom.listen(waiter)).toBe(false);
  });

  it.each([0, 1])(
    'is woken when it is live, %i nodes deaf: a release before that went unheard',
    async (deaf) => {
      const { environment, nodes, waitingRoom, enter } = setUp();
      for (const node of nodes.slice(0, deaf)) node.isDeaf = true;
      const waiter = enter('r');
      waitingRoom.listen(waiter);
      const isAwake = watch(waiter.pause(1_000));

      await environment.settle();

      expect(isAwake()).toBe(true);
    },
  );

  it('is woken by a quorum of nodes; one that speaks twice is one', async () => {
    const { environment, nodes, waitingRoom, enter } = setUp();
    const waiter = enter('r');
    waitingRoom.listen(waiter);
    await environment.settle();
    waitingRoom.noteAttempt(waiter);
    const isAwake = watch(waiter.pause(1_000));

    nodes[0]?.forgeWakeUp('r');
    nodes[0]?.forgeWakeUp('r');
    await environment.settle();
    const afterOne = isAwake();
    nodes[2]?.forgeWakeUp('r');
    await environment.settle();

    expect(afterOne).toBe(false);
    expect(isAwake()).toBe(true);
  });

  it('counts anew for each attempt: what was heard before it is no news', async () => {
    const { environment, nodes, waitingRoom, enter } = setUp();
    const waiter = enter('r');
    waitingRoom.listen(waiter);
    await environment.settle();

    nodes[0]?.forgeWakeUp('r');
    await environment.settle();
    waitingRoom.noteAttempt(waiter);
    const isAwake = watch(waiter.pause(1_000));
    nodes[1]?.forgeWakeUp('r');
    await environment.settle();

    expect(isAwake()).toBe(false);
  });

  it('is woken once where thousands of its resources are released', async () => {
    const prepare = async (count: number) => {
      const { environment, waitingRoom, enter, tellOf } = setUp();
      const waiter = enter(...namesOf(count));
      waitingRoom.listen(waiter);
      await environment.settle();
      waitingRoom.noteAttempt(waiter);
      const isAwake = watch(waiter.pause(1_000));
      return async () => {
        await tellOf(namesOf(count));
        expect(isAwake()).toBe(true);
      };
    };

    expect(await growth(prepare, 3_000)).toBeLessThan(LINEAR);
  });

  it('behind another for one of its resources is not woken by releases of the rest', async () => {
    const { environment, waitingRoom, enter, hold, tellOf } = setUp();
    const holder = hold('order:1');
    const first = enter(...namesOf(999));
    waitingRoom.listen(first);
    const behind = enter(...namesOf(999), 'order:1');
    await environment.settle();
    waitingRoom.leave(first);
    const isAwake = watch(behind.pause(1_000));

    await tellOf(namesOf(999));
    const wasAwake = isAwake();
    waitingRoom.leave(holder);
    await environment.settle();

    expect(wasAwake).toBe(false);
    expect(isAwake()).toBe(true);
  });

  it('hears a release that comes during its attempt', async () => {
    const { environment, nodes, waitingRoom, enter } = setUp();
    const waiter = enter('r');
    waitingRoom.listen(waiter);
    await environment.settle();
    waitingRoom.noteAttempt(waiter);

    for (const node of nodes) node.forgeWakeUp('r');
    await environment.settle();
    const isAwake = watch(waiter.pause(1_000));
    await environment.settle();

    expect(isAwake()).toBe(true);
  });
});

describe('the turn of other processes', () => {
  it('begins anew when they are told anew', async () => {
    const { environment, waitingRoom, enter, mayTry } = setUp();
    waitingRoom.onReleased(['r'], toldTo(1));
    await environment.advance(3);

    waitingRoom.onReleased(['r'], toldTo(1));
    const late = enter('r');
    await environment.advance(4);
    const whileTheyGo = mayTry(late);
    await environment.advance(1);

    expect([whileTheyGo, mayTry(late)]).toEqual([false, true]);
  });

  it('on thousands of resources ends, and who waits looks at each of them once', async () => {
    const prepare = (count: number) => {
      const { environment, waitingRoom, enter, hold, mayTry } = setUp();
      const untilReady = async (waiter: Waiter): Promise<void> => {
        while (!mayTry(waiter)) await waiter.pause(1_000);
      };
      waitingRoom.handOn(hold(...namesOf(count)));
      waitingRoom.onReleased(namesOf(count), toldTo(1));
      const late = enter(...namesOf(count));
      const isAwake = watch(untilReady(late));
      return async () => {
        await environment.advance(6);
        expect(isAwake()).toBe(true);
      };
    };

    expect(await growth(prepare, 3_000)).toBeLessThan(LINEAR);
  });

  it('that is over before its time takes no place from a call that comes later', async () => {
    const { environment, waitingRoom, enter, hold, handOnToTheLimit } = setUp();
    const holder = handOnToTheLimit(hold('r'));
    waitingRoom.onReleased(['r'], toldTo(1));

    waitingRoom.handOn(holder);
    waitingRoom.onReleased(['r'], toldTo(0));
    const late = enter('r');
    await environment.advance(10);

    expect(waitingRoom.mayTry(late)).toBe(true);
  });
});
