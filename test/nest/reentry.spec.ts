import { AsyncResource, type AsyncLocalStorage } from 'node:async_hooks';

import { describe, expect, it } from '@jest/globals';
import { currentLock, LockReentryError, type RedlockService } from 'nestjs-locked';

import { Redlock } from '../../lib/core/redlock.js';
import { heldBy, runHolding } from '../../lib/nest/lock-context.js';
import { findJoinable } from '../../lib/nest/reentry.js';
import { MemoryNode } from '../../lib/nodes/memory-node.js';
import { growth, LINEAR } from '../support/growth.js';
import { startService } from './support/applications.js';
import { Gate, turn } from './support/events.js';

describe('a lock to join', () => {
  // Of one length and a common beginning: what two of them share has to be compared.
  const namesOf = (kind: number, count: number): string[] =>
    Array.from({ length: count }, (_, index) => `${'path/'.repeat(90)}${kind}:${10_000 + index}`);

  it('is looked for among thousands of resources, each looked at once', async () => {
    const domain = new Redlock([new MemoryNode()]);
    const place = 'Stock.move';
    const prepare = async (count: number) => {
      await using lock = await domain.acquire(namesOf(1, count));
      const held = await runHolding({ domain, lock, place }, async () => heldBy(domain));
      const caller = { held, isReentrant: true, place, isByHand: false };
      return () => expect(findJoinable(caller, namesOf(2, count))).toBeNull();
    };

    expect(await growth(prepare, 100)).toBeLessThan(LINEAR);
  });
});

describe('a job of another call, which a shared queue starts in a locked body', () => {
  type Job = () => Promise<unknown>;

  /** Starts each job where the one before it has ended, as p-queue does. */
  class Queue {
    readonly #jobs: Job[] = [];
    #isBusy = false;

    add(job: Job): Promise<unknown> {
      return new Promise((resolve) => {
        this.#jobs.push(() => job().then(resolve, resolve));
        if (!this.#isBusy) void this.#run();
      });
    }

    async #run(): Promise<void> {
      this.#isBusy = true;
      for (const job of this.#jobs) await job();
      this.#isBusy = false;
    }
  }

  /** What becomes of the job: the lock's error, or whether the body of the other call had ended. */
  async function outcomeOf(toJob: (redlock: RedlockService, hasEnded: () => boolean) => Job) {
    const redlock = await startService({ wait: 5_000 });
    const queue = new Queue();
    const isQueued = new Gate();
    let hasEnded = false;
    const body = redlock.using('a', async () => {
      await queue.add(() => isQueued.passed);
      for (let turns = 0; turns < 5; turns += 1) await turn();
      hasEnded = true;
    });
    await turn();

    const job = queue.add(toJob(redlock, () => hasEnded));
    isQueued.open();
    const [outcome] = await Promise.all([job, body]);
    return outcome;
  }

  it('is taken for a part of that body: refused, or run beside it where it may join', async () => {
    const refused = await outcomeOf((redlock) => () => redlock.using('a', () => 'inside'));
    const beside = await outcomeOf(
      (redlock, hasEnded) => () => redlock.using('a', { reentrant: true }, hasEnded),
    );

    expect(refused).toBeInstanceOf(LockReentryError);
    expect(beside).toBe(false);
  });

  it('waits for that body once it is bound to its own context', async () => {
    const bound = await outcomeOf((redlock, hasEnded) =>
      AsyncResource.bind(() => redlock.using('a', { reentrant: true }, hasEnded)),
    );

    expect(bound).toBe(true);
  });
});

describe('a batch that calls share, as those of DataLoader', () => {
  type Batch = () => Promise<unknown>;

  /** Gives two calls one answer, which is made where the first of them asks. */
  class Loader {
    readonly #isFull = new Gate();
    readonly #batch: Batch;
    #answer: Promise<unknown> | undefined;

    constructor(batch: Batch) {
      this.#batch = batch;
    }

    load(): Promise<unknown> {
      if (this.#answer === undefined) this.#answer = this.#isFull.passed.then(this.#batch);
      else this.#isFull.open();
      return this.#answer;
    }
  }

  it('is under the lock of who asked first, unless it is bound outside of every lock', async () => {
    const redlock = await startService();
    const lockIn = async (bind: (batch: Batch) => Batch): Promise<unknown> => {
      const loader = new Loader(bind(async () => currentLock()?.resources));
      const [answer] = await Promise.all(
        ['a', 'b'].map((name) => redlock.using(name, () => loader.load())),
      );
      return answer;
    };

    expect(await lockIn((batch) => batch)).toEqual(['a']);
    expect(await lockIn((batch) => AsyncResource.bind(batch))).toBeUndefined();
  });
});

describe('the async context of locks', () => {
  it('does not grow with a loop that starts its next round in its own body', async () => {
    const redlock = await startService();
    const done = new Gate();
    const depths: number[] = [];
    const round = (begin: () => void): void => {
      void redlock.using(`round:${depths.length}`, async () => {
        depths.push(depthOfContext());
        begin();
        if (depths.length > 20) return done.open();
        await new Promise<void>((hasBegun) => round(hasBegun));
      });
    };

    round(() => undefined);
    await done.passed;

    expect(depths).toEqual(depths.map((depth) => Math.min(depth, 3)));
  });
});

interface Frame {
  readonly outer: Frame | undefined;
}

/** How many locks and scopes, those that are over too, are kept for the running async context. */
function depthOfContext(): number {
  const key = Symbol.for('nestjs-locked.context');
  const storage = Reflect.get(globalThis, key) as AsyncLocalStorage<Frame | undefined>;
  let depth = 0;
  for (let frame = storage.getStore(); frame !== undefined; frame = frame.outer) depth += 1;
  return depth;
}
