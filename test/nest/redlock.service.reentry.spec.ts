/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// RedlockService by hand in a context that holds what is asked for, or waits for it.
import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  currentLock,
  Locked,
  LockLostError,
  LockReentryError,
  LockTakenError,
  RedlockService,
  type Lock,
} from 'nestjs-locked';

import { untilCollected } from '../support/collect-garbage.js';
import { startModule, startService } from './support/applications.js';
import { faultyNodes, loseLock } from './support/faulty-nodes.js';
import { Gate, rejection } from './support/events.js';

describe('a nested acquisition of what nobody holds', () => {
  type Acquire = (redlock: RedlockService) => Promise<Lock | null>;
  const ways: readonly [string, Acquire][] = [
    ['using', (redlock) => redlock.using('b', { wait: 500 }, (lock) => lock)],
    ['acquire', (redlock) => redlock.acquire('b', 1_000, { wait: 500 })],
    ['tryAcquire', (redlock) => redlock.tryAcquire('b', 1_000)],
  ];

  it.each(ways)('does not wait for who waits for its caller, by %s', async (_name, acquire) => {
    const redlock = await startService();
    const isWaiting = new Gate();
    const outer = redlock.using('a', async () => {
      await isWaiting.passed;
      const lock = await acquire(redlock);
      await lock?.release();
      return lock?.resources;
    });
    const both = redlock.using(['a', 'b'], () => 'both');
    isWaiting.open();

    expect(await outer).toEqual(['b']);
    expect(await both).toBe('both');
  });
});

describe('a nested acquisition of what the same context holds', () => {
  @Injectable()
  class Inventory {
    readonly redlock: RedlockService;
    constructor(redlock: RedlockService) {
      this.redlock = redlock;
    }

    @Locked((sku: string) => `sku:${sku}`, { wait: 60_000 })
    async reserve(sku: string): Promise<void> {
      await this.move(sku);
    }

    @Locked((sku: string) => `sku:${sku}`, { wait: 60_000 })
    async move(_sku: string): Promise<void> {}

    @Locked('byHand', { wait: 60_000 })
    async byHand(): Promise<void> {
      await this.redlock.using('byHand', { wait: 60_000 }, () => undefined);
    }
  }

  it('is refused at once, naming both places', async () => {
    const module = await startModule({ providers: [Inventory] });

    const error = await rejection(module.get(Inventory).reserve('7'));

    expect(error).toBeInstanceOf(LockReentryError);
    expect(error).toMatchObject({ code: 'LOCK_REENTRY', resources: ['sku:7'] });
    expect(String(error)).toMatch(
      /Inventory\.move asks .* holds "sku:7" in Inventory\.reserve: it would wait for itself\. Acquire it/,
    );
    expect(await module.get(RedlockService).inspect('sku:7')).toMatchObject({ state: 'free' });
  });

  it('names the calling line where it was made by hand', async () => {
    const module = await startModule({ providers: [Inventory] });

    const error = await rejection(module.get(Inventory).byHand());

    expect(String(error)).toMatch(
      /RedlockService\.using \(at Inventory\.byHand .*redlock\.service\.reentry\.spec\.ts:\d+:\d+\)\)? asks/,
    );
    expect(String(error)).toContain('in Inventory.byHand');
  });

  it('is refused as such, without the line, where the application keeps stacks as lists', async () => {
    const redlock = await startService();
    const { prepareStackTrace } = Error;
    Error.prepareStackTrace = (_error, frames) => frames;

    const error = await redlock.using('a', () => rejection(redlock.acquire('a')));

    Object.assign(Error, { prepareStackTrace });
    expect(error).toBeInstanceOf(LockReentryError);
    expect(String(error)).toContain('RedlockService.acquire asks for "a"');
  });

  it.each([
    ['acquire', (redlock: RedlockService) => redlock.acquire('a')],
    ['tryAcquire', (redlock: RedlockService) => redlock.tryAcquire('a')],
    ['using', (redlock: RedlockService) => redlock.using(['b', 'a'], () => undefined)],
  ])('is refused by %s, by that name', async (name, call) => {
    const redlock = await startService();

    const error = await redlock.using('a', () => rejection(call(redlock)));

    expect(error).toBeInstanceOf(LockReentryError);
    expect(String(error)).toContain(`LockReentryError: RedlockService.${name} (at `);
  });

  it('joins the held lock where that is asked for, and leaves its release to the outermost', async () => {
    const redlock = await startService();
    const reentrant = { reentrant: true };

    await redlock.using(['a', 'b'], async (outer) => {
      await redlock.using('a', reentrant, (inner) => {
        expect(inner.fencingToken).toBe(outer.fencingToken);
        expect(inner.ownerId).toBe(outer.ownerId);
        inner.assertHeld();
        return inner.release().then(() => inner.assertHeld());
      });
      {
        await using acquired = await redlock.acquire('b', undefined, reentrant);
        expect(acquired.ownerId).toBe(outer.ownerId);
      }
      const tried = await redlock.tryAcquire('a', undefined, reentrant);
      await tried?.release();

      expect(tried?.ownerId).toBe(outer.ownerId);
      expect(outer.isValid).toBe(true);
      expect(await redlock.inspect('a')).toMatchObject({ state: 'held' });
    });

    expect(await redlock.inspect('a')).toMatchObject({ state: 'free' });
  });

  it('is the current lock of what joined it, also inside another lock', async () => {
    const redlock = await startService({ reentrant: true });
    const current = (): readonly string[] | undefined => currentLock()?.resources;

    const seen = await redlock.using('a', () =>
      redlock.using('b', async () => [await redlock.using('a', current), current()]),
    );

    expect(seen).toEqual([['a'], ['b']]);
  });

  it('joins by default in a module that is reentrant, and can be refused for one call', async () => {
    const redlock = await startService({ reentrant: true });

    const [joined, refused] = await redlock.using('a', async (outer) => [
      await redlock.using('a', ({ ownerId }) => ownerId === outer.ownerId),
      await rejection(redlock.using('a', { reentrant: false }, () => 1)),
    ]);

    expect(joined).toBe(true);
    expect(refused).toBeInstanceOf(LockReentryError);
  });

  it('is refused where no single held lock covers it, also when it may join', async () => {
    const redlock = await startService();
    const call = (): Promise<unknown> =>
      rejection(redlock.using(['a', 'b'], { reentrant: true }, () => undefined));

    const partial = await redlock.using('a', call);
    const split = await redlock.using('a', () => redlock.using('b', call));

    expect(partial).toBeInstanceOf(LockReentryError);
    expect(split).toBeInstanceOf(LockReentryError);
    expect(String(split)).toContain(
      'so there is none to join: acquire all of them together, in the outer call. ' +
        'Acquire it in one place only, or join a lock that covers all of it with { reentrant: true } (',
    );
  });

  it('does not concern other resources, or calls side by side', async () => {
    const redlock = await startService();

    await redlock.using('a', () => redlock.using('b', () => undefined));
    await redlock.using('outer', () =>
      Promise.all([redlock.using('a', () => 1), redlock.using('a', () => 2)]),
    );
  });

  it('acquires anew in background work that outlives the body', async () => {
    const redlock = await startService();
    const bodyIsOver = new Gate();
    let background: Promise<string> | undefined;

    const outerId = await redlock.using('a', ({ ownerId }) => {
      background = bodyIsOver.passed.then(() =>
        redlock.using('a', { reentrant: true }, (lock) => lock.ownerId),
      );
      return ownerId;
    });
    bodyIsOver.open();

    expect(await background).not.toBe(outerId);
  });

  it('does not join a lock that was lost', async () => {
    const nodes = faultyNodes();
    const module = await startModule({}, { reentrant: true }, nodes);
    const redlock = module.get(RedlockService);

    const outcome = await rejection(
      redlock.using('a', async (outer) => {
        await loseLock(nodes, outer);
        const inner = await rejection(redlock.using('a', { wait: 0 }, () => 'ran'));
        // Its own keys are still there: the call acquires for itself, and is refused.
        expect(inner).toBeInstanceOf(LockTakenError);
        return 'done';
      }),
    );

    expect(outcome).toBeInstanceOf(LockLostError);
    expect(outcome).toMatchObject({ result: 'done' });
  });

  it('fails a joined body whose outermost body was not waiting for it', async () => {
    const redlock = await startService();
    const leave = new Gate();
    let inner: Promise<string> | undefined;

    await redlock.using('a', () => {
      inner = redlock.using('a', { reentrant: true }, async () => {
        await leave.passed;
        return 'late';
      });
    });
    leave.open();

    expect(await rejection(inner ?? Promise.resolve())).toMatchObject({
      code: 'LOCK_LOST',
      reason: 'released',
      result: 'late',
    });
  });

  it.each(['after it is over', 'before it is over'])(
    'keeps no lock of a loop that starts its next round in the body of the last, %s',
    async (moment) => {
      const redlock = await startService();
      const isLast = new Gate();
      const leave = new Gate();
      const locks: WeakRef<Lock>[] = [];
      const round = async (begin: () => void): Promise<void> => {
        await redlock.using(`round:${locks.length}`, async (lock) => {
          locks.push(new WeakRef(lock));
          begin();
          const hasBegun = new Gate();
          const next = (): void => void round(hasBegun.open);
          if (locks.length === 6) {
            isLast.open();
            await leave.passed;
          } else if (moment === 'after it is over') {
            setTimeout(next, 1);
          } else {
            next();
            await hasBegun.passed;
          }
        });
      };

      void round(() => undefined);
      await isLast.passed;

      // The last has begun: nobody needs those before the one that it was started in.
      for (const lock of locks.slice(0, 3)) await untilCollected(lock);
      leave.open();
    },
  );
});
