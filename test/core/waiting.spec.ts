import { describe, expect, it } from '@jest/globals';

import { majorityOf } from '../../lib/core/quorum.js';
import { silentObserver } from '../../lib/core/observer.js';
import { resolveOptions } from '../../lib/core/options.js';
import { Waiter } from '../../lib/core/waiter.js';
import { WaitingRoom } from '../../lib/core/waiting.js';
import { growth, heapGrowth, LINEAR } from '../support/growth.js';
import { TestNode } from '../support/test-node.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';

const namesOf = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `sku:${index}`);

function setUp() {
  const environment = new SimulatedEnvironment();
  const nodes = [0, 1, 2].map((index) => new TestNode(environment, `node-${index}`));
  const waitingRoom = new WaitingRoom({
    nodes,
    quorum: majorityOf(nodes.length),
    options: resolveOptions({}, nodes.length),
    environment,
    observer: silentObserver,
  });
  /** A call whose caller holds `held`. */
  const enterInside = (held: readonly string[], ...resources: string[]): Waiter => {
    const waiter = new Waiter(environment, resources, 1_000);
    waitingRoom.enter(waiter, held);
    return waiter;
  };
  const enter = (...resources: string[]): Waiter => enterInside([], ...resources);
  /** The call has got its lock now. */
  const grant = (waiter: Waiter): void => waitingRoom.hold(waiter);
  /** A call that has got its lock. */
  const hold = (...resources: string[]): Waiter => {
    const waiter = enter(...resources);
    grant(waiter);
    return waiter;
  };
  /** All nodes tell of the releases of these resources, and whoever waits has heard it. */
  const tellOf = async (resources: readonly string[]): Promise<void> => {
    for (const node of nodes) for (const resource of resources) node.forgeWakeUp(resource);
    await environment.settle();
  };
  /** Hands the lock on as often as others may be passed over; gives who has it then. */
  const handOnToTheLimit = (first: Waiter): Waiter => {
    let holder = first;
    for (let count = 0; count < 16; count += 1) {
      const next = enter('r');
      void next.pause(1_000);
      waitingRoom.handOn(holder);
      grant(next);
      holder = next;
    }
    return holder;
  };
  /** Whether it is the waiter's turn. */
  const isReady = (waiter: Waiter): boolean => waitingRoom.isTurn(waiter);
  /** Whether a pause that has been begun is over. */
  const watch = (pause: Promise<unknown>): (() => boolean) => {
    let isOver = false;
    const note = (): void => {
      isOver = true;
    };
    pause.then(note, note);
    return () => isOver;
  };
  const moves = { enter, enterInside, grant, hold, handOnToTheLimit, tellOf };
  return { environment, nodes, waitingRoom, ...moves, isReady, watch };
}

describe('a queue', () => {
  it('serves in the order of arrival', () => {
    const { waitingRoom, enter, isReady } = setUp();
    const waiters = [enter('r'), enter('r'), enter('r')] as const;

    const atFirst = waiters.map(isReady);
    waitingRoom.leave(waiters[0]);
    const then = waiters.slice(1).map(isReady);

    expect(atFirst).toEqual([true, false, false]);
    expect(then).toEqual([true, false]);
  });

  it('is one for each resource', () => {
    const { enter, isReady } = setUp();

    const [one, other] = [enter('a'), enter('b')];

    expect(isReady(one)).toBe(true);
    expect(isReady(other)).toBe(true);
  });

  it('forgets who gives up in the middle of it', () => {
    const { waitingRoom, enter, isReady } = setUp();
    const [first, second, third] = [enter('r'), enter('r'), enter('r')];

    waitingRoom.leave(second);
    waitingRoom.leave(first);

    expect(isReady(third)).toBe(true);
    expect(waitingRoom.size).toBe(1);
  });

  it('is not disturbed by somebody who leaves twice', () => {
    const { waitingRoom, enter, isReady } = setUp();
    const [first, second] = [enter('r'), enter('r')];

    waitingRoom.leave(first);
    waitingRoom.leave(first);

    expect(isReady(second)).toBe(true);
    waitingRoom.leave(second);
    waitingRoom.leave(second);
    expect(waitingRoom.size).toBe(0);
  });

  it.each(['the first', 'the last'] as const)(
    'of thousands is left by all, %s first, and each looks at no other',
    async (end) => {
      const prepare = (count: number) => {
        const { waitingRoom, enter, hold } = setUp();
        hold('r');
        const waiters = Array.from({ length: count }, () => enter('r'));
        if (end === 'the last') waiters.reverse();
        return () => {
          for (const waiter of waiters) waitingRoom.leave(waiter);
          expect(waitingRoom.size).toBe(0);
        };
      };

      expect(await growth(prepare, 5_000)).toBeLessThan(LINEAR);
    },
  );

  it.each(['refused', 'released', 'left to other processes'] as const)(
    'is not kept in memory when the lock of its resource was %s',
    async (end) => {
      const { environment, waitingRoom, hold, enter } = setUp();
      const come = (resource: string): void => {
        if (end === 'refused') {
          waitingRoom.leave(enter(resource));
          return;
        }
        waitingRoom.handOn(hold(resource));
        waitingRoom.settle([resource], end === 'released' ? 0 : 1);
      };
      const useMany = async (round: string): Promise<void> => {
        for (let n = 0; n < 20_000; n += 1) come(`${round} ${n}`);
        await environment.advance(200);
      };

      // A name and a queue for each would be more than 3 MB.
      expect(await heapGrowth(useMany)).toBeLessThan(1_500_000);
    },
  );

  it('is headed by the call that has the lock, which does not wait any more', () => {
    const { waitingRoom, enter, hold, isReady } = setUp();

    const holder = hold('r');
    const next = enter('r');

    expect(isReady(next)).toBe(false);
    expect(waitingRoom.size).toBe(1);
    waitingRoom.leave(holder);
    expect(isReady(next)).toBe(true);
  });

  it('is passed over by nobody but those behind a holder alone', () => {
    const { waitingRoom, enter, hold } = setUp();
    hold('r');

    const [next, last] = [enter('r'), enter('r')];

    expect(waitingRoom.isFirstWaiting(next)).toBe(true);
    expect(waitingRoom.isFirstWaiting(last)).toBe(false);
  });

  it('is not passed over by a call that heads another queue alone', () => {
    const { waitingRoom, enter } = setUp();
    enter('r');

    const both = enter('r', 's');

    expect(waitingRoom.isFirstWaiting(both)).toBe(false);
  });
});

describe('a call whose caller holds a lock', () => {
  it('goes before those that wait for that lock, for they wait for it', () => {
    const { waitingRoom, enter, enterInside, hold, isReady } = setUp();
    const holder = hold('a');
    const both = enter('a', 'b');

    const inside = enterInside(['a'], 'b');
    const insideToo = enterInside(['a'], 'b');

    expect([inside, insideToo, both].map(isReady)).toEqual([true, false, false]);
    for (const waiter of [inside, insideToo, holder]) waitingRoom.leave(waiter);
    expect(isReady(both)).toBe(true);
  });

  it('goes before those behind them, in whatever queue', () => {
    const { enter, enterInside, hold, isReady } = setUp();
    hold('a');
    enter('a', 'c');
    enter('c', 'd');
    const last = enter('d', 'b');

    const inside = enterInside(['a'], 'b', 'd');

    expect([inside, last].map(isReady)).toEqual([true, false]);
  });

  it('waits for all others, as their locks do not need it', () => {
    const { waitingRoom, enter, enterInside, hold, isReady } = setUp();
    hold('a');
    const [first, second] = [hold('b'), enter('b')];
    const both = enter('a', 'b');

    const inside = enterInside(['a'], 'b');

    waitingRoom.leave(first);
    expect([second, inside, both].map(isReady)).toEqual([true, false, false]);
    waitingRoom.leave(second);
    expect([inside, both].map(isReady)).toEqual([true, false]);
  });

  it('finds its place among thousands, and looks at each of them once', async () => {
    const prepare = (count: number) => {
      const { enter, enterInside, hold, isReady } = setUp();
      hold('a');
      for (let entered = 0; entered < count; entered += 1) enter('a', 'b');
      return () => expect(isReady(enterInside(['a'], 'b'))).toBe(true);
    };

    expect(await growth(prepare, 2_000)).toBeLessThan(LINEAR);
  });
});

describe('a call for several resources', () => {
  it('has its turn when it heads all their queues', () => {
    const { waitingRoom, enter, isReady } = setUp();
    const [a, b, both] = [enter('a'), enter('b'), enter('a', 'b')];

    waitingRoom.leave(a);
    const halfway = isReady(both);
    waitingRoom.leave(b);

    expect(halfway).toBe(false);
    expect(isReady(both)).toBe(true);
  });

  it('never waits in a ring with overlapping ones', () => {
    const { waitingRoom, enter, isReady } = setUp();
    const ring = [enter('a', 'b'), enter('b', 'c'), enter('a', 'c')];

    const served: number[] = [];
    while (waitingRoom.size > 0) {
      const next = ring.findIndex((each, index) => !served.includes(index) && isReady(each));
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

  it('is woken when the one before it leaves', async () => {
    const { environment, waitingRoom, enter, watch } = setUp();
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
    const { environment, waitingRoom, enter, watch } = setUp();
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
    const { environment, enter, watch } = setUp();
    const waiter = enter('r');
    waiter.wake();

    const isFirstOver = watch(waiter.pause(1_000));
    await environment.settle();
    const isSecondOver = watch(waiter.pause(1_000));
    await environment.settle();

    expect(isFirstOver()).toBe(true);
    expect(isSecondOver()).toBe(false);
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

describe('everybody who waits', () => {
  it('is interrupted with a reason of their own; holders are not', async () => {
    const { waitingRoom, enter, hold } = setUp();
    const holder = hold('c');
    const [a, b] = [enter('a').pause(1_000), enter('b').pause(1_000)];

    waitingRoom.interruptAll(([resource]) => new Error(`no ${resource}`));

    await expect(a).rejects.toThrow('no a');
    await expect(b).rejects.toThrow('no b');
    expect(() => holder.throwIfInterrupted()).not.toThrow();
  });
});

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
    const { environment, waitingRoom, enter, grant, hold, isReady } = setUp();
    let holder = hold('r');
    let isHandedOn = true;

    for (const length of run.heldFor) {
      await environment.advance(length);
      const next = enter('r');
      void next.pause(1_000);
      isHandedOn = waitingRoom.handOn(holder).length > 0;
      expect(isReady(next)).toBe(isHandedOn);
      waitingRoom.settle(['r'], 0);
      grant(next);
      holder = next;
    }

    expect(isHandedOn).toBe(run.isHandedOn);
  });

  it('is handed on at once: the next call is awake before the release is sent', async () => {
    const { environment, waitingRoom, enter, hold, watch } = setUp();
    const holder = hold('r');
    const isAwake = watch(enter('r').pause(1_000));

    waitingRoom.handOn(holder);
    await environment.settle();

    expect(isAwake()).toBe(true);
  });

  it('is not handed on to a call that has slept and tries now, but leaves it its turn', async () => {
    const { environment, waitingRoom, enter, hold, isReady } = setUp();
    const holder = hold('r');
    const next = enter('r');
    void next.pause(10);
    await environment.advance(20);

    const calls = waitingRoom.handOn(holder);

    expect(calls).toEqual([]);
    expect(isReady(next)).toBe(true);
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
    const { environment, waitingRoom, enter, hold, handOnToTheLimit, isReady, watch } = setUp();
    const holder = handOnToTheLimit(hold('r'));
    const last = enter('r');
    void last.pause(1_000);

    waitingRoom.handOn(holder);
    await environment.settle();
    const whileTold = isReady(last);
    const isAwake = watch(last.pause(1_000));
    waitingRoom.settle(['r'], 0);
    await environment.settle();

    expect(whileTold).toBe(false);
    expect(isReady(last)).toBe(true);
    expect(isAwake()).toBe(true);
  });

  it('lets other processes go first for 5 ms, where any were told', async () => {
    const { environment, waitingRoom, enter, hold, isReady } = setUp();
    waitingRoom.handOn(hold('r'));

    waitingRoom.settle(['r'], 1);
    const late = enter('r');
    await environment.advance(4.5);
    const whileTheyGo = isReady(late);
    const timersHoldingTheProcess = environment.processHoldingTimers;
    await environment.advance(1);

    expect(whileTheyGo).toBe(false);
    expect(timersHoldingTheProcess).toBe(0);
    expect(isReady(late)).toBe(true);
    expect(environment.pendingTimers).toBe(0);
  });
});

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
      const { environment, nodes, waitingRoom, enter, watch } = setUp();
      for (const node of nodes.slice(0, deaf)) node.isDeaf = true;
      const waiter = enter('r');
      waitingRoom.listen(waiter);
      const isAwake = watch(waiter.pause(1_000));

      await environment.settle();

      expect(isAwake()).toBe(true);
    },
  );

  it('is woken by a quorum of nodes; one that speaks twice is one', async () => {
    const { environment, nodes, waitingRoom, enter, watch } = setUp();
    const waiter = enter('r');
    waitingRoom.listen(waiter);
    await environment.settle();
    waitingRoom.startAttempt(waiter);
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
    const { environment, nodes, waitingRoom, enter, watch } = setUp();
    const waiter = enter('r');
    waitingRoom.listen(waiter);
    await environment.settle();

    nodes[0]?.forgeWakeUp('r');
    await environment.settle();
    waitingRoom.startAttempt(waiter);
    const isAwake = watch(waiter.pause(1_000));
    nodes[1]?.forgeWakeUp('r');
    await environment.settle();

    expect(isAwake()).toBe(false);
  });

  it('is woken once where thousands of its resources are released', async () => {
    const prepare = async (count: number) => {
      const { environment, waitingRoom, enter, tellOf, watch } = setUp();
      const waiter = enter(...namesOf(count));
      waitingRoom.listen(waiter);
      await environment.settle();
      waitingRoom.startAttempt(waiter);
      const isAwake = watch(waiter.pause(1_000));
      return async () => {
        await tellOf(namesOf(count));
        expect(isAwake()).toBe(true);
      };
    };

    expect(await growth(prepare, 3_000)).toBeLessThan(LINEAR);
  });

  it('behind another looks at its queues once where thousands are released', async () => {
    const prepare = async (count: number) => {
      const { environment, waitingRoom, enter, hold, tellOf, watch } = setUp();
      const holder = hold('order:1');
      const first = enter(...namesOf(count));
      waitingRoom.listen(first);
      const behind = enter(...namesOf(count), 'order:1');
      await environment.settle();
      waitingRoom.leave(first);
      const isAwake = watch(behind.pause(1_000));
      return async () => {
        await tellOf(namesOf(count));
        expect(isAwake()).toBe(false);
        waitingRoom.leave(holder);
        await environment.settle();
        expect(isAwake()).toBe(true);
      };
    };

    expect(await growth(prepare, 3_000)).toBeLessThan(LINEAR);
  });

  it('hears a release that comes during its attempt', async () => {
    const { environment, nodes, waitingRoom, enter, watch } = setUp();
    const waiter = enter('r');
    waitingRoom.listen(waiter);
    await environment.settle();
    waitingRoom.startAttempt(waiter);

    for (const node of nodes) node.forgeWakeUp('r');
    await environment.settle();
    const isAwake = watch(waiter.pause(1_000));
    await environment.settle();

    expect(isAwake()).toBe(true);
  });
});

describe('the turn of other processes', () => {
  it('begins anew when they are told anew', async () => {
    const { environment, waitingRoom, enter, isReady } = setUp();
    waitingRoom.settle(['r'], 1);
    await environment.advance(3);

    waitingRoom.settle(['r'], 1);
    const late = enter('r');
    await environment.advance(4);
    const whileTheyGo = isReady(late);
    await environment.advance(1);

    expect([whileTheyGo, isReady(late)]).toEqual([false, true]);
  });

  describe('after half a second in which they were told in vain', () => {
    /** They are told every 50 ms, `times` times; gives who is next in this process then. */
    const tellOthers = async (times: number) => {
      const scene = setUp();
      const next = scene.enter('r');
      for (let time = 0; time < times; time += 1) {
        await scene.environment.advance(50);
        scene.waitingRoom.settle(['r'], 1);
      }
      return { ...scene, next };
    };

    it('is long enough for who is far away', async () => {
      const { environment, isReady, next } = await tellOthers(11);

      await environment.advance(99);
      const whileTheyGo = isReady(next);
      await environment.advance(2);

      expect([whileTheyGo, isReady(next)]).toEqual([false, true]);
    });

    it('is short before, and after that', async () => {
      const [before, after] = [await tellOthers(10), await tellOthers(12)];

      for (const { environment } of [before, after]) await environment.advance(6);

      expect([before, after].map(({ isReady, next }) => isReady(next))).toEqual([true, true]);
    });
  });

  it('on thousands of resources ends, and who waits looks at each of them once', async () => {
    const prepare = (count: number) => {
      const { environment, waitingRoom, enter, hold, isReady, watch } = setUp();
      const untilReady = async (waiter: Waiter): Promise<void> => {
        while (!isReady(waiter)) await waiter.pause(1_000);
      };
      waitingRoom.handOn(hold(...namesOf(count)));
      waitingRoom.settle(namesOf(count), 1);
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
    waitingRoom.settle(['r'], 1);

    waitingRoom.handOn(holder);
    waitingRoom.settle(['r'], 0);
    const late = enter('r');
    await environment.advance(10);

    expect(waitingRoom.isTurn(late)).toBe(true);
  });
});

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
