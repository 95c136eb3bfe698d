import { describe, expect, it, jest } from '@jest/globals';

import { Waiter } from '../../lib/core/waiter.js';
import { afterTest } from '../support/after-test.js';
import { growth, heapGrowth, LINEAR } from '../support/growth.js';
import { toldTo } from '../support/test-node.js';
import { watch } from './scene.js';
import { namesOf, setUp } from './waiting-scene.js';

describe('a queue', () => {
  it('serves in the order of arrival', () => {
    const { waitingRoom, enter, mayTry } = setUp();
    const waiters = [enter('r'), enter('r'), enter('r')] as const;

    const atFirst = waiters.map(mayTry);
    waitingRoom.leave(waiters[0]);
    const then = waiters.slice(1).map(mayTry);

    expect(atFirst).toEqual([true, false, false]);
    expect(then).toEqual([true, false]);
  });

  it('is one for each resource', () => {
    const { enter, mayTry } = setUp();

    const [one, other] = [enter('a'), enter('b')];

    expect(mayTry(one)).toBe(true);
    expect(mayTry(other)).toBe(true);
  });

  it('forgets who gives up in the middle of it', () => {
    const { waitingRoom, enter, mayTry } = setUp();
    const [first, second, third] = [enter('r'), enter('r'), enter('r')];

    waitingRoom.leave(second);
    waitingRoom.leave(first);

    expect(mayTry(third)).toBe(true);
    expect(waitingRoom.size).toBe(1);
  });

  it('forgets who came to it and was thrown out before the next, as the stack was used up', () => {
    const { environment, waitingRoom, enter, mayTry } = setUp();
    const waiter = new Waiter(environment, ['a', 'b'], 1_000, true);
    const overflow = new RangeError('Maximum call stack size exceeded');
    const look = jest.spyOn(waiter, 'mayBePassed', 'get').mockReturnValueOnce(true);
    look.mockImplementationOnce(() => {
      throw overflow;
    });

    expect(() => waitingRoom.enter(waiter, [])).toThrow(overflow);
    waitingRoom.leave(waiter);

    expect([enter('a'), enter('b')].map(mayTry)).toEqual([true, true]);
  });

  it('is not disturbed by somebody who leaves twice', () => {
    const { waitingRoom, enter, mayTry } = setUp();
    const [first, second] = [enter('r'), enter('r')];

    waitingRoom.leave(first);
    waitingRoom.leave(first);

    expect(mayTry(second)).toBe(true);
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
        waitingRoom.onReleased([resource], end === 'released' ? toldTo(0) : toldTo(1));
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
    const { waitingRoom, enter, hold, mayTry } = setUp();

    const holder = hold('r');
    const next = enter('r');

    expect(mayTry(next)).toBe(false);
    expect(waitingRoom.size).toBe(1);
    waitingRoom.leave(holder);
    expect(mayTry(next)).toBe(true);
  });

  it('is passed over by nobody but those behind a holder alone', async () => {
    const { waitingRoom, enter, hold } = setUp();
    hold('r');

    const [next, last] = [enter('r'), enter('r')];

    expect(await waitingRoom.isNext(next, 0)).toBe(true);
    expect(await waitingRoom.isNext(last, 0)).toBe(false);
  });

  it('is not passed over by a call that heads another queue alone', async () => {
    const { waitingRoom, enter } = setUp();
    enter('r');

    const both = enter('r', 's');

    expect(await waitingRoom.isNext(both, 0)).toBe(false);
  });
});

describe('a call whose caller holds a lock', () => {
  it('goes before those that wait for that lock, for they wait for it', () => {
    const { waitingRoom, enter, enterInside, hold, mayTry } = setUp();
    const holder = hold('a');
    const both = enter('a', 'b');

    const inside = enterInside(['a'], 'b');
    const insideToo = enterInside(['a'], 'b');

    expect([inside, insideToo, both].map(mayTry)).toEqual([true, false, false]);
    waitingRoom.leave(inside);
    expect([insideToo, both].map(mayTry)).toEqual([true, false]);
    for (const waiter of [insideToo, holder]) waitingRoom.leave(waiter);
    expect(mayTry(both)).toBe(true);
  });

  it('goes before those behind them, in whatever queue', () => {
    const { enter, enterInside, hold, mayTry } = setUp();
    hold('a');
    enter('a', 'c');
    enter('c', 'd');
    const last = enter('d', 'b');

    const inside = enterInside(['a'], 'b', 'd');

    expect([inside, last].map(mayTry)).toEqual([true, false]);
  });

  it('goes before calls for more that wait elsewhere: who has that may wait for its caller', () => {
    const { enter, enterInside, hold, mayTry } = setUp();
    for (const each of ['a', 'b']) hold(each);
    const both = enter('a', 'c');

    const inside = enterInside(['b'], 'c');
    enterInside(['a'], 'b');

    expect([inside, both].map(mayTry)).toEqual([true, false]);
  });

  it('is let pass by a call for more that has tried in vain, and then woken', async () => {
    const { environment, waitingRoom, enter, enterInside, hold, mayTry } = setUp();
    hold('b');
    const both = enter('a', 'c');
    const inside = enterInside(['b'], 'c');
    const others = [enter('c'), enter('c', 'd')];
    const isAwake = watch(inside.pause(1_000));
    const before = [both, inside, ...others].map(mayTry);

    waitingRoom.giveWay(both);
    await environment.settle();

    expect(before).toEqual([true, false, false, false]);
    expect([both, inside, ...others].map(mayTry)).toEqual([false, true, false, false]);
    expect(isAwake()).toBe(true);
    waitingRoom.leave(inside);
    expect([both, ...others].map(mayTry)).toEqual([true, false, false]);
  });

  it('passes no call for one resource, and none inside another lock', () => {
    const { waitingRoom, enter, enterInside, hold, mayTry } = setUp();
    for (const each of ['a', 'b', 'd', 'e']) hold(each);
    const before = [enter('c'), enterInside(['e'], 'f', 'g')];

    const inside = [enterInside(['b'], 'c'), enterInside(['d'], 'g')];
    for (const each of before) waitingRoom.giveWay(each);

    expect([...before, ...inside].map(mayTry)).toEqual([true, true, false, false]);
  });

  it('waits for all others, as their locks do not need it', () => {
    const { waitingRoom, enter, enterInside, hold, mayTry } = setUp();
    hold('a');
    const [first, second] = [hold('b'), enter('b')];
    const both = enter('a', 'b');

    const inside = enterInside(['a'], 'b');

    waitingRoom.leave(first);
    expect([second, inside, both].map(mayTry)).toEqual([true, false, false]);
    waitingRoom.leave(second);
    expect([inside, both].map(mayTry)).toEqual([true, false]);
  });

  it('finds its place among thousands, and looks at each of them once', async () => {
    const prepare = (count: number) => {
      const { enter, enterInside, hold, mayTry } = setUp();
      hold('a');
      for (let entered = 0; entered < count; entered += 1) enter('a', 'b');
      return () => expect(mayTry(enterInside(['a'], 'b'))).toBe(true);
    };

    expect(await growth(prepare, 2_000)).toBeLessThan(LINEAR);
  });

  it('looks at none of hundreds of which none may be passed', () => {
    const { waitingRoom, enter, enterInside, hold } = setUp();
    const names = namesOf(500);
    hold('r', 's');
    waitingRoom.leave(enter('r', 's'));
    for (const name of names) hold(name);
    const looks = jest.spyOn(Waiter.prototype, 'mayBePassed', 'get');
    afterTest(() => looks.mockRestore());

    for (const name of names) enterInside([name], 'r');

    expect(waitingRoom.size).toBe(names.length);
    // Each once, when it gets its place.
    expect(looks).toHaveBeenCalledTimes(names.length);
  });
});

describe('a call for several resources', () => {
  it('has its turn when it heads all their queues', () => {
    const { waitingRoom, enter, mayTry } = setUp();
    const [a, b, both] = [enter('a'), enter('b'), enter('a', 'b')];

    waitingRoom.leave(a);
    const halfway = mayTry(both);
    waitingRoom.leave(b);

    expect(halfway).toBe(false);
    expect(mayTry(both)).toBe(true);
  });

  it('never waits in a ring with overlapping ones', () => {
    const { waitingRoom, enter, mayTry } = setUp();
    const ring = [enter('a', 'b'), enter('b', 'c'), enter('a', 'c')];

    const served: number[] = [];
    while (waitingRoom.size > 0) {
      const next = ring.findIndex((each, index) => !served.includes(index) && mayTry(each));
      const waiter = ring[next];
      if (waiter === undefined) break;
      served.push(next);
      waitingRoom.leave(waiter);
    }

    expect(served).toEqual([0, 1, 2]);
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
