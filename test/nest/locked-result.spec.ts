// Methods that return Observables, async iterables or streams stay locked until those end, fail or
// are dropped.
import {
  subscribe as subscribeChannel,
  unsubscribe as unsubscribeChannel,
} from 'node:diagnostics_channel';
import { EventEmitter, getEventListeners, on, once } from 'node:events';
import { Duplex, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';

import { describe, expect, it, jest } from '@jest/globals';
import { Injectable, StreamableFile } from '@nestjs/common';
import {
  currentLock,
  Locked,
  LockTakenError,
  RedlockService,
  type Lock,
  type RedlockModuleOptions,
} from 'nestjs-locked';
import {
  BehaviorSubject,
  concat,
  defer,
  from,
  lastValueFrom,
  mergeAll,
  Observable,
  of,
  Subject,
  take,
  tap,
  throwError,
  toArray,
} from 'rxjs';
import type { Observable as ObservableType } from 'rxjs';

import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { startModule } from './support/applications.js';
import { faultyNodes } from './support/faulty-nodes.js';
import { aborted, Gate, rejection, turn } from './support/events.js';

const source = { values: new Subject<number>(), subscriptions: 0 };

@Injectable()
class Feeds {
  runs = 0;
  finished = 0;
  lock: Lock | undefined;

  @Locked('feed', { wait: 0 })
  observe(): Observable<number> {
    this.runs += 1;
    expect(currentLock('feed')?.isValid).toBe(true);
    return new Observable((subscriber) => {
      expect(currentLock('feed')?.isValid).toBe(true);
      source.subscriptions += 1;
      return source.values.subscribe(subscriber);
    });
  }

  @Locked('feed', { wait: 60_000 })
  observePatiently(): Observable<number> {
    this.runs += 1;
    return of(1);
  }

  /** The first subscription goes on; those after it complete. */
  @Locked('feed', { wait: 0 })
  async observeOnce(): Promise<Observable<number>> {
    let subscriptions = 0;
    return defer(() => ((subscriptions += 1) === 1 ? this.values() : of(subscriptions)));
  }

  @Locked('feed', { wait: 0 })
  async observeLater(): Promise<Observable<number>> {
    this.lock = currentLock();
    return this.values();
  }

  @Locked('feed', { wait: 0, onTaken: 'skip' })
  observeOrSkip(): Observable<number | undefined> {
    return of(1);
  }

  @Locked('feed', { wait: 0, onTaken: () => of(7, 8) })
  observeOrElse(): Observable<number> {
    return of(1);
  }

  @Locked('feed', { wait: 0 })
  observeAll(values: Iterable<number>): Observable<number> {
    return from(values);
  }

  @Locked('feed', { wait: 0 })
  observeBadly(): Observable<number> {
    return 1 as unknown as Observable<number>;
  }

  @Locked('feed', { wait: 0 })
  observeThrowing(): Observable<number> {
    throw new Error('on call');
  }

  @Locked('feed', { wait: 0 })
  async *generate(count: number): AsyncGenerator<number, string, string | undefined> {
    this.runs += 1;
    this.lock = currentLock();
    try {
      for (let index = 0; index < count; index += 1) {
        expect(currentLock('feed')?.isValid).toBe(true);
        await Promise.resolve();
        if (index === 3) throw new Error('at three');
        if ((yield index) === 'stop') return 'stopped';
      }
      return 'ended';
    } finally {
      this.finished += 1;
    }
  }

  @Locked('feed', { wait: 0, onTaken: 'skip' })
  async *generateOrSkip(): AsyncGenerator<number> {
    yield 1;
  }

  @Locked('feed', { wait: 0, onTaken: 'skip' })
  async *generateOfTaken(): AsyncGenerator<number> {
    yield 1;
    throw new LockTakenError('Others have it', { resources: ['other'], retryAfter: null });
  }

  @Locked('feed', { wait: 0, onTaken: () => of(7) })
  observeTaken(): Observable<number> {
    const taken = new LockTakenError('Others have it', { resources: ['other'], retryAfter: null });
    return concat(
      of(1),
      throwError(() => taken),
    );
  }

  @Locked('feed', { wait: 0, onTaken: () => [7] as unknown as AsyncGenerator<number> })
  async *generateOrElse(): AsyncGenerator<number> {
    yield 1;
  }

  @Locked('feed', {
    wait: 0,
    onTaken: async function* () {
      yield 7;
      yield 8;
    },
  })
  async *generateInstead(): AsyncGenerator<number> {
    yield 1;
  }

  @Locked('feed', { wait: 0 })
  async *generateUntilComplete(): AsyncGenerator<never> {
    yield* untilComplete();
  }

  @Locked('feed', { wait: 0 })
  async hang(): Promise<AsyncIterable<number>> {
    this.lock = currentLock();
    const hanging = () => new Promise<never>(() => {});
    return { [Symbol.asyncIterator]: () => ({ next: hanging, return: hanging }) };
  }

  @Locked('feed', { wait: 0 })
  async count(): Promise<AsyncIterable<number>> {
    let value = 0;
    const next = async () => ({ done: false, value: (value += 1) });
    return { [Symbol.asyncIterator]: () => ({ next }) };
  }

  @Locked('feed', { wait: 0 })
  async read(stream: Readable): Promise<Readable> {
    return stream;
  }

  @Locked('feed', { wait: 0 })
  async download(stream: Readable): Promise<StreamableFile> {
    return new StreamableFile(stream);
  }

  @Locked('feed', { wait: 0 })
  async attach<T extends object>(attachment: T): Promise<T> {
    return attachment;
  }

  @Locked('feed', { wait: 0 })
  async attachTooLate<T extends object>(attachment: T): Promise<T> {
    const lock = currentLock();
    if (lock !== undefined) await aborted(lock.signal);
    return attachment;
  }

  @Locked('feed', { wait: 0 })
  async web(): Promise<ReadableStream<string>> {
    return new ReadableStream({
      start(controller) {
        controller.enqueue('web');
        controller.close();
      },
    });
  }

  private values(): Observable<number> {
    return defer(() => {
      source.subscriptions += 1;
      return source.values;
    });
  }
}

/** Gives nothing, and ends with the source. */
async function* untilComplete(): AsyncGenerator<never> {
  yield* [];
  await lastValueFrom(source.values, { defaultValue: 0 });
}

async function start(options: RedlockModuleOptions = {}) {
  source.values = new Subject();
  source.subscriptions = 0;
  const nodes = faultyNodes();
  const module = await startModule(
    { providers: [Feeds] },
    { ttl: 1_000, shutdownTimeout: 50, ...options },
    nodes,
  );
  const redlock = module.get(RedlockService);
  return {
    feeds: module.get(Feeds),
    redlock,
    nodes,
    isFree: async () => (await redlock.inspect('feed')).state === 'free',
    releases: () => nodes.reduce((sum, node) => sum + node.count('release'), 0),
    /** Waits in the queue until the lock is free. */
    freed: async () => {
      const lock = await redlock.acquire('feed', 1_000, { wait: 5_000 });
      await lock.release();
    },
    loseLock: () => {
      for (const node of nodes) node.lose();
    },
  };
}

/** Resolves with the first value that arrives; the subscription stays. */
function subscribe<T>(observable: Observable<T>) {
  const first = new Gate<T>();
  const end = new Gate<unknown>();
  const subscription = observable.subscribe({
    next: (value) => first.open(value),
    error: (error) => end.open(error),
    complete: () => end.open('complete'),
  });
  return { first: first.passed, end: end.passed, subscription };
}

/** Emits when the source has a subscriber. */
async function emit(value: number): Promise<void> {
  while (!source.values.observed) await turn();
  source.values.next(value);
}

describe('a @Locked method whose stand-in cannot give what is declared', () => {
  type Feed = Observable<number>;

  @Injectable()
  class Declared {
    @Locked('declared')
    inferred() {
      return of(1);
    }

    @Locked('declared')
    aliased(): Feed {
      return of(1);
    }

    @Locked('declared')
    imported(): ObservableType<number> {
      return of(1);
    }

    @Locked('declared')
    generator(): AsyncGenerator<number> {
      return this.iterate();
    }

    @Locked('declared')
    iterable(): AsyncIterable<number> {
      return this.iterate();
    }

    @Locked('declared')
    readable(): Readable {
      return Readable.from(['one']);
    }

    @Locked('declared')
    file(): StreamableFile {
      return new StreamableFile(Readable.from(['one']));
    }

    @Locked('declared')
    subject(): BehaviorSubject<number> {
      return new BehaviorSubject(1);
    }

    private async *iterate(): AsyncGenerator<number> {
      yield 1;
    }
  }

  async function resultOf(kind: keyof Declared): Promise<unknown[]> {
    const module = await startModule({ providers: [Declared] }, { shutdownTimeout: 0 });
    // In an array: who awaits it gets the result itself.
    return [module.get(Declared)[kind]()];
  }

  it.each([
    'inferred',
    'aliased',
    'imported',
    'generator',
    'iterable',
    'readable',
    'file',
  ] as const)('gives a Promise of it: %s', async (kind) => {
    const [result] = await resultOf(kind);

    expect(result).toBeInstanceOf(Promise);
    await result;
  });

  it('gives a plain Observable for a Subject', async () => {
    const [result] = await resultOf('subject');

    expect(result).toBeInstanceOf(Observable);
    expect(result).not.toBeInstanceOf(BehaviorSubject);
  });
});

describe('a @Locked method that returns an Observable', () => {
  it('acquires on subscription and releases when it completes', async () => {
    const { feeds, redlock, isFree } = await start();
    const observable = feeds.observe();
    expect([feeds.runs, await isFree()]).toEqual([0, true]);

    const { first, end } = subscribe(observable);
    await emit(1);
    expect(await first).toBe(1);
    expect(await redlock.tryAcquire('feed')).toBeNull();
    source.values.complete();

    expect(await end).toBe('complete');
    expect(await isFree()).toBe(true);
  });

  it('releases when it fails, with the very error', async () => {
    const { feeds, isFree } = await start();
    const { end } = subscribe(feeds.observe());
    await emit(1);
    const failure = new Error('feed');

    source.values.error(failure);

    expect(await end).toBe(failure);
    expect(await isFree()).toBe(true);
  });

  it('releases when it is unsubscribed', async () => {
    const { feeds, freed } = await start();
    const { subscription } = subscribe(feeds.observe());
    await emit(1);

    subscription.unsubscribe();

    await freed();
    expect(source.values.observed).toBe(false);
  });

  it('stops waiting when it is unsubscribed, and acquires nothing', async () => {
    const { feeds, redlock, freed } = await start();
    const lock = await redlock.acquire('feed', 10_000);
    const { subscription } = subscribe(feeds.observePatiently());
    while ((await redlock.status()).waiting === 0) await turn();

    subscription.unsubscribe();

    while ((await redlock.status()).waiting > 0) await turn();
    expect(lock.isValid).toBe(true);
    await lock.release();
    await freed();
    expect(feeds.runs).toBe(0);
  });

  it('releases what it got in the moment in which it was unsubscribed', async () => {
    const { feeds, freed } = await start();
    const onAcquired = (): void => subscription.unsubscribe();
    subscribeChannel('nestjs-locked:acquire', onAcquired);
    const { subscription } = subscribe(feeds.observePatiently());
    while (!subscription.closed) await turn();
    unsubscribeChannel('nestjs-locked:acquire', onAcquired);

    await freed();
    expect(feeds.runs).toBe(0);
  });

  it.each([
    ['itself', (feeds: Feeds, all: Iterable<number>) => feeds.observeAll(all)],
    [
      'by a promise',
      (feeds: Feeds, all: Iterable<number>) =>
        defer(() => feeds.attach(from(all))).pipe(mergeAll()),
    ],
  ])('ends a source that emits all at once when nobody wants more: %s', async (_way, observe) => {
    const { feeds, freed } = await start();
    let emitted = 0;
    function* numbers(): Generator<number> {
      while (emitted < 1_000) yield (emitted += 1);
    }

    const taken = await lastValueFrom(observe(feeds, numbers()).pipe(take(3), toArray()));

    await freed();
    expect(taken).toEqual([1, 2, 3]);
    expect(emitted).toBe(3);
  });

  it('runs anew for each subscription, each with a lock of its own', async () => {
    const { feeds } = await start();
    const observable = feeds.observeOrElse();

    const all = concat(observable, observable).pipe(toArray());

    expect(await lastValueFrom(all)).toEqual([1, 1]);
  });

  it('fails with the LockLostError when the lock is lost first', async () => {
    const { feeds, loseLock } = await start();
    const { end } = subscribe(feeds.observe());
    await emit(1);

    loseLock();

    expect(await end).toMatchObject({ code: 'LOCK_LOST' });
    expect(source.values.observed).toBe(false);
  });

  it('skips, falls back or fails while others hold the lock', async () => {
    const { feeds, redlock } = await start();
    await using lock = await redlock.acquire('feed', 10_000);

    expect(lock.isValid).toBe(true);
    expect(await lastValueFrom(feeds.observeOrSkip())).toBeUndefined();
    expect(await lastValueFrom(feeds.observeOrElse().pipe(toArray()))).toEqual([7, 8]);
    expect(await rejection(lastValueFrom(feeds.observe()))).toBeInstanceOf(LockTakenError);
  });

  it('falls back for its own lock alone, and fails with the error of another', async () => {
    const { feeds, isFree } = await start();
    const values: number[] = [];

    const error = await rejection(
      lastValueFrom(feeds.observeTaken().pipe(tap((value) => values.push(value)))),
    );

    expect(values).toEqual([1]);
    expect(error).toMatchObject({ resources: ['other'] });
    expect(await isFree()).toBe(true);
  });

  it('fails with what the method throws, or where it returned something else', async () => {
    const { feeds, isFree } = await start();

    const thrown = await rejection(lastValueFrom(feeds.observeThrowing()));
    const wrong = await rejection(lastValueFrom(feeds.observeBadly()));

    expect(String(thrown)).toBe('Error: on call');
    expect(String(wrong)).toMatch(/Feeds\.observeBadly to return/);
    expect(await isFree()).toBe(true);
  });

  it('fails at once where the lock was lost before it was subscribed', async () => {
    const { feeds, loseLock } = await start();
    const observable = await feeds.observeLater();
    loseLock();
    if (feeds.lock !== undefined) await aborted(feeds.lock.signal);

    expect(await rejection(lastValueFrom(observable))).toMatchObject({ code: 'LOCK_LOST' });
    expect(source.values.observed).toBe(false);
  });

  it('by a promise: is locked for one subscription also when another has completed', async () => {
    const { feeds, isFree } = await start();
    const observable = await feeds.observeOnce();
    const { subscription } = subscribe(observable);

    await lastValueFrom(observable);
    await turn();
    const wasFree = await isFree();
    subscription.unsubscribe();

    expect(wasFree).toBe(false);
  });

  it('by a promise: is locked from the call until the last subscription has ended', async () => {
    const { feeds, isFree } = await start();

    const observable = await feeds.observeLater();
    expect(await isFree()).toBe(false);
    const [left, right] = [subscribe(observable), subscribe(observable)];
    left.subscription.unsubscribe();
    await emit(2);
    expect([await right.first, await isFree()]).toEqual([2, false]);
    source.values.complete();
    await right.end;

    expect(await isFree()).toBe(true);
    expect(await rejection(lastValueFrom(observable))).toMatchObject({
      code: 'LOCK_LOST',
      reason: 'released',
    });
    expect(source.subscriptions).toBe(2);
  });
});

describe('a @Locked async generator', () => {
  it('acquires on its first step and releases when it ends', async () => {
    const { feeds, redlock, isFree } = await start();
    const generator = feeds.generate(2);
    expect(await isFree()).toBe(true);

    const steps = [await generator.next()];
    expect(await redlock.tryAcquire('feed')).toBeNull();
    steps.push(await generator.next(), await generator.next());

    expect(steps).toEqual([
      { done: false, value: 0 },
      { done: false, value: 1 },
      { done: true, value: 'ended' },
    ]);
    expect(await isFree()).toBe(true);
  });

  it('is locked for itself alone: the loop over it is outside, and a lock there waits', async () => {
    const { feeds, redlock } = await start();
    const outside: unknown[] = [];

    for await (const value of feeds.generate(1)) {
      const refused = await rejection(redlock.acquire('feed', 1_000, { wait: 5 }));
      outside.push(value, currentLock(), refused);
    }

    expect(outside).toEqual([0, undefined, expect.any(LockTakenError)]);
  });

  it('releases when the consumer breaks off, and runs the finally of the generator', async () => {
    const { feeds, isFree } = await start();

    for await (const value of feeds.generate(9)) if (value === 1) break;

    expect([feeds.finished, await isFree()]).toEqual([1, true]);
  });

  it('releases when it throws, with the very error, and when it is thrown into', async () => {
    const { feeds, isFree } = await start();
    const failure = new Error('thrown in');
    const consume = async (): Promise<void> => {
      for await (const value of feeds.generate(9)) expect(value).toBeLessThan(3);
    };
    const generator = feeds.generate(9);

    const own = await rejection(consume());
    await generator.next();
    const thrownIn = await rejection(generator.throw(failure));

    expect(String(own)).toBe('Error: at three');
    expect(thrownIn).toBe(failure);
    expect([feeds.finished, await isFree()]).toEqual([2, true]);
  });

  it('with two decorators is still one, under both locks', async () => {
    @Injectable()
    class Twice {
      @Locked('outer')
      @Locked('inner')
      async *generate(): AsyncGenerator<boolean> {
        yield currentLock('outer')?.isValid === true && currentLock('inner')?.isValid === true;
      }
    }
    const module = await startModule({ providers: [Twice] });

    const values = [];
    for await (const value of module.get(Twice).generate()) values.push(value);

    expect(values).toEqual([true]);
    expect((await module.get(RedlockService).status()).held).toBe(0);
  });

  it('passes values in', async () => {
    const { feeds, isFree } = await start();
    const generator = feeds.generate(9);

    await generator.next();

    expect(await generator.next('stop')).toEqual({ done: true, value: 'stopped' });
    expect(await isFree()).toBe(true);
  });

  it('by a promise: releases when `await using` has left it, as a generator of Node 24', async () => {
    const { feeds, isFree } = await start();

    {
      await using numbers = (await feeds.count()) as AsyncGenerator<number>;
      expect([await numbers.next(), await isFree()]).toEqual([{ done: false, value: 1 }, false]);
    }

    expect(await isFree()).toBe(true);
  });

  it('ends an iterable that knows neither return nor throw', async () => {
    const { feeds, isFree } = await start();
    const failure = new Error('thrown in');

    for await (const value of await feeds.count()) if (value === 2) break;
    const thrownIn = (await feeds.count()) as AsyncGenerator<number>;
    await thrownIn.next();

    expect(await rejection(thrownIn.throw(failure))).toBe(failure);
    expect(await isFree()).toBe(true);
    // It would go on, without the lock.
    expect(await thrownIn.next()).toEqual({ done: true, value: undefined });
  });

  it('catches what is thrown into it, and goes on under its lock', async () => {
    const { feeds, isFree } = await start();
    const catching = async function* (): AsyncGenerator {
      try {
        yield 'first';
      } catch (error) {
        yield error;
      }
    };
    const steps = await feeds.attach(catching());
    await steps.next();

    expect(await steps.throw('thrown in')).toEqual({ done: false, value: 'thrown in' });
    expect(await isFree()).toBe(false);
    expect(await steps.next()).toEqual({ done: true, value: undefined });
  });

  it('thrown into, awaits the return of an iterable that knows no throw', async () => {
    const { feeds, isFree } = await start();
    const [asked, ended] = [new Gate(), new Gate()];
    const steps = {
      next: async () => ({ done: false, value: 1 }),
      async return() {
        asked.open();
        await ended.passed;
        return { done: true, value: 1 };
      },
    };
    const generator = (await feeds.attach({
      [Symbol.asyncIterator]: () => steps,
    })) as unknown as AsyncGenerator<number>;
    const failure = new Error('thrown in');

    const thrownIn = rejection(generator.throw(failure));
    await asked.passed;
    await turn();
    expect(await isFree()).toBe(false);
    ended.open();

    expect(await thrownIn).toBe(failure);
    expect(await isFree()).toBe(true);
  });

  it('never runs when nobody steps it', async () => {
    const { feeds, isFree } = await start();

    const end = await feeds.generate(9).return('none');

    expect(end).toEqual({ done: true, value: 'none' });
    expect([feeds.runs, await isFree()]).toEqual([0, true]);
  });

  it('skips or falls back while others hold the lock', async () => {
    const { feeds, redlock } = await start();
    await using lock = await redlock.acquire('feed', 10_000);

    expect(lock.isValid).toBe(true);
    expect(await feeds.generateOrSkip().next()).toEqual({ done: true, value: undefined });
    expect(await feeds.generateOrElse().next()).toEqual({ done: true, value: [7] });
    const instead = feeds.generateInstead();
    expect([await instead.next(), await instead.next()]).toMatchObject([
      { value: 7 },
      { value: 8 },
    ]);
    expect(await rejection(feeds.generate(1).next())).toBeInstanceOf(LockTakenError);
  });

  it('skips for its own lock alone, and fails with the error of another', async () => {
    const { feeds, isFree } = await start();
    const feed = feeds.generateOfTaken();

    expect(await feed.next()).toEqual({ done: false, value: 1 });
    expect(await rejection(feed.next())).toMatchObject({ resources: ['other'] });
    expect(await isFree()).toBe(true);
  });

  it('releases when a feed is left while it waits for its next value', async () => {
    const { feeds, isFree, freed } = await start();
    const emitter = new EventEmitter();
    const feed = (await feeds.attach(on(emitter, 'news')))[Symbol.asyncIterator]();
    const step = feed.next();
    expect(await isFree()).toBe(false);

    await feed.return?.();

    expect(await step).toEqual({ done: true, value: undefined });
    expect(emitter.listenerCount('news')).toBe(0);
    await freed();
  });

  it('releases when a feed is left before its first step', async () => {
    const { feeds, isFree } = await start();
    const emitter = new EventEmitter();
    const feed = (await feeds.attach(on(emitter, 'news')))[Symbol.asyncIterator]();

    await feed.return?.();

    expect(emitter.listenerCount('news')).toBe(0);
    expect(await isFree()).toBe(true);
  });

  it('releases when the last of several steps is over, whoever left before', async () => {
    const { feeds, isFree, freed } = await start();
    const work = new Gate<IteratorResult<number>>();
    const steps = {
      next: () => work.passed,
      return: async () => ({ done: true as const, value: 0 }),
    };
    const feed = (await feeds.attach({ [Symbol.asyncIterator]: () => steps }))[
      Symbol.asyncIterator
    ]();
    const step = feed.next();

    await feed.return();
    expect(await isFree()).toBe(false);
    work.open({ done: false, value: 1 });

    expect(await step).toEqual({ done: false, value: 1 });
    await freed();
  });

  it('fails with the LockLostError when the lock is lost first, also in a step that hangs', async () => {
    const { feeds, loseLock } = await start();
    const iterator = (await feeds.hang())[Symbol.asyncIterator]();
    const step = rejection(Promise.resolve(iterator.next()));

    loseLock();

    expect(await step).toMatchObject({ code: 'LOCK_LOST' });
  });

  it('fails in the next step when the lock was lost between two', async () => {
    const { feeds, loseLock } = await start();
    const generator = feeds.generate(9);
    await generator.next();
    loseLock();
    if (feeds.lock !== undefined) await aborted(feeds.lock.signal);

    expect(await rejection(generator.next())).toMatchObject({ code: 'LOCK_LOST' });
    expect(await generator.next()).toEqual({ done: true, value: undefined });
  });

  it('takes no step of an iterable whose lock was lost, also where it would go on', async () => {
    const environment = new SimulatedEnvironment();
    const { feeds } = await start({ environment });
    let taken = 0;
    const next = async () => ({ done: false as const, value: (taken += 1) });
    const iterable = await feeds.attach({ [Symbol.asyncIterator]: () => ({ next }) });
    const steps = iterable[Symbol.asyncIterator]();
    await steps.next();

    environment.block(1_000);

    expect(await rejection(steps.next())).toMatchObject({ code: 'LOCK_LOST' });
    expect(taken).toBe(1);
  });
});

describe('the end of what a @Locked method returned', () => {
  const defaultValue = 'end';
  const drain = async (steps: AsyncIterable<never>): Promise<void> => {
    for await (const value of steps) expect(value).toBeUndefined();
  };
  const kinds: [string, (feeds: Feeds) => Promise<unknown>][] = [
    ['an Observable', (feeds) => lastValueFrom(feeds.observe(), { defaultValue })],
    [
      'an Observable by a promise',
      async (feeds) => lastValueFrom(await feeds.observeLater(), { defaultValue }),
    ],
    ['an async generator', (feeds) => drain(feeds.generateUntilComplete())],
    ['an async iterable by a promise', async (feeds) => drain(await feeds.attach(untilComplete()))],
  ];

  it.each(kinds)('comes when its lock is released: %s', async (_kind, consume) => {
    // Time stands still, so that nobody gives the nodes up.
    const { feeds, nodes, releases } = await start({ environment: new SimulatedEnvironment() });
    let hasEnded = false;
    const end = consume(feeds).then(() => (hasEnded = true));
    while (!source.values.observed) await turn();

    for (const node of nodes) node.hang();
    source.values.complete();
    while (releases() < nodes.length) await turn();
    await turn();
    const hadEnded = hasEnded;
    for (const node of nodes) node.heal();
    await end;

    expect(hadEnded).toBe(false);
  });

  it.each(kinds)('is a LockLostError where its time ran out unnoticed: %s', async (_, consume) => {
    const environment = new SimulatedEnvironment();
    const { feeds } = await start({ environment });
    const end = rejection(consume(feeds));
    while (!source.values.observed) await turn();

    environment.block(1_000);
    source.values.complete();

    expect(await end).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
  });

  it.each(kinds)('is one where it outlived the lock that it joined: %s', async (_, consume) => {
    const { feeds, redlock } = await start({ reentrant: true });
    let end = Promise.resolve<unknown>(undefined);
    await redlock.using('feed', async () => {
      end = rejection(consume(feeds));
      while (!source.values.observed) await turn();
    });

    source.values.complete();

    expect(await end).toMatchObject({ code: 'LOCK_LOST', reason: 'released' });
  });
});

describe('what a @Locked method returned after the loss of its lock', () => {
  it.each<[string, (feeds: Feeds) => Promise<unknown>]>([
    ['an Observable', async (feeds) => lastValueFrom(await feeds.attachTooLate(of(1)))],
    ['an iterable', async (feeds) => (await feeds.attachTooLate(untilComplete())).next()],
    ['a stream', async (feeds) => text(await feeds.attachTooLate(new Readable({ read() {} })))],
  ])('fails: %s', async (_kind, consume) => {
    const { feeds, redlock, loseLock } = await start();
    const end = rejection(consume(feeds));
    while ((await redlock.status()).held === 0) await turn();

    loseLock();

    expect(await end).toMatchObject({ code: 'LOCK_LOST' });
  });
});

describe('a lock that is held for long', () => {
  const listeners = ({ lock }: Feeds) =>
    lock ? getEventListeners(lock.signal, 'abort').length : 0;

  it('gathers no listeners with the steps of an iterable', async () => {
    const { feeds } = await start();
    const generator = feeds.generate(3);
    await generator.next();
    const before = listeners(feeds);

    await generator.next();
    await generator.next();

    expect(listeners(feeds)).toBe(before);
  });

  it.each<[string, (feeds: Feeds) => AsyncIterable<unknown> | Promise<AsyncIterable<unknown>>]>([
    ['read to their end', (feeds) => feeds.generateOrSkip()],
    ['as web streams', (feeds) => feeds.web()],
  ])('gathers no listeners with the iterables that join it: %s', async (_how, iterate) => {
    const { feeds, redlock } = await start({ reentrant: true });

    await redlock.using('feed', async ({ signal }) => {
      for (let round = 0; round < 12; round += 1) {
        for await (const value of await iterate(feeds)) expect(value).toBeDefined();
      }

      expect(getEventListeners(signal, 'abort')).toEqual([]);
    });
  });

  it('gathers no listeners with the subscriptions of an Observable', async () => {
    const { feeds } = await start();
    const observable = await feeds.observeLater();
    subscribe(observable);
    const before = listeners(feeds);

    subscribe(observable).subscription.unsubscribe();

    expect(listeners(feeds)).toBe(before);
  });

  it('has one listener for all that subscribe at the same time, and tells each', async () => {
    const { feeds, loseLock } = await start();
    const observable = await feeds.observeLater();
    const { end } = subscribe(observable);
    const before = listeners(feeds);

    const others = Array.from({ length: 11 }, () => subscribe(observable));
    const during = listeners(feeds);
    loseLock();

    const ends = await Promise.all([end, ...others.map((other) => other.end)]);
    expect(during).toBe(before);
    expect(ends).toEqual(ends.map(() => expect.objectContaining({ code: 'LOCK_LOST' })));
  });

  it('has one listener for all iterables and Observables that join it, read or not', async () => {
    const { feeds, redlock } = await start({ reentrant: true });

    await redlock.using('feed', async ({ signal }) => {
      for (let round = 0; round < 6; round += 1) {
        await feeds.observeLater();
        await feeds.hang();
      }

      expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    });
  });

  it('has one listener for all steps that are under way at the same time', async () => {
    const { feeds, loseLock } = await start();
    const hanging = (await feeds.hang())[Symbol.asyncIterator]();
    const before = listeners(feeds);

    const steps = Array.from({ length: 12 }, () => rejection(hanging.next()));

    const during = listeners(feeds);
    loseLock();

    const ends = await Promise.all(steps);
    expect(during).toBe(before);
    expect(ends).toEqual(ends.map(() => expect.objectContaining({ code: 'LOCK_LOST' })));
  });
});

describe('what nobody goes on with', () => {
  it.each<[string, (feeds: Feeds) => Promise<unknown>]>([
    ['a generator after one step', (feeds) => feeds.generate(9).next()],
    ['an iterable without any step', (feeds) => feeds.count()],
    ['an Observable without a subscriber', (feeds) => feeds.observeLater()],
  ])('counts as held no longer when its lock is lost, and is released: %s', async (_, call) => {
    const { feeds, redlock, loseLock, releases } = await start();
    await call(feeds);
    const held = async (): Promise<number> => (await redlock.status()).held;
    expect(await held()).toBe(1);

    loseLock();
    while ((await held()) > 0 || releases() === 0) await turn();

    expect(feeds.finished).toBe(feeds.runs);
  });
});

describe('a @Locked method that returns a stream', () => {
  it('releases when the stream has closed', async () => {
    const { feeds, isFree, freed } = await start();

    const stream = await feeds.read(Readable.from(['one', 'two']));
    expect(await isFree()).toBe(false);

    expect(await text(stream)).toBe('onetwo');
    await freed();
  });

  it('releases at the end of a stream that never closes', async () => {
    const { feeds, freed } = await start();
    const stream = new Readable({ autoDestroy: false, read: () => stream.push(null) });

    await feeds.read(stream);
    // An error that nobody hears is to end the process, as ever.
    expect(stream.listenerCount('error')).toBe(0);
    expect(await text(stream)).toBe('');

    await freed();
    expect(stream.closed).toBe(false);
  });

  it('releases at the end of what is read, however long more may be written', async () => {
    const { feeds, freed } = await start();
    const socket = new Duplex({ read: () => socket.push(null), write: () => {} });

    await feeds.read(socket);
    socket.resume();

    await freed();
    expect(socket.writable).toBe(true);
  });

  it('takes no stream out of an object that happens to have one', async () => {
    const { feeds, isFree } = await start();
    const getStream = jest.fn(() => new Readable({ read: () => {} }));

    await feeds.attach({ getStream });

    expect(getStream).not.toHaveBeenCalled();
    expect(await isFree()).toBe(true);
  });

  it('releases when the stream is destroyed', async () => {
    const { feeds, freed } = await start();
    const file = await feeds.download(Readable.from(['one']));

    file.getStream().destroy();

    await freed();
  });

  it('does not hold for a stream that has closed already', async () => {
    const { feeds, freed } = await start();
    const stream = Readable.from([]);
    stream.destroy();
    await once(stream, 'close');

    await feeds.read(stream);

    await freed();
  });

  it('destroys the stream with the LockLostError when the lock is lost first', async () => {
    const { feeds, loseLock } = await start();
    const stream = await feeds.read(new Readable({ read: () => {} }));
    const reading = rejection(text(stream));

    loseLock();

    expect(await reading).toMatchObject({ code: 'LOCK_LOST' });
    expect(stream.destroyed).toBe(true);
  });

  it('fails a file without naming resources and nodes: Nest may send the message', async () => {
    const { feeds, loseLock } = await start();
    const file = await feeds.download(new Readable({ read: () => {} }));
    const reading = rejection(text(file.getStream()));

    loseLock();

    expect(await reading).toMatchObject({
      message: 'The lock was lost before the file was sent',
      cause: { code: 'LOCK_LOST' },
    });
  });

  it('does not end the process when the lock is lost and nobody reads the stream', async () => {
    const { feeds, loseLock } = await start();
    const stream = await feeds.read(new Readable({ read: () => {} }));

    loseLock();
    await new Promise((resolve) => stream.once('close', resolve));

    expect(stream.errored).toMatchObject({ code: 'LOCK_LOST' });
  });

  it('keeps a web stream a web stream', async () => {
    const { feeds, isFree, freed } = await start();

    const stream = await feeds.web();
    expect([stream instanceof ReadableStream, await isFree()]).toEqual([true, false]);
    const reader = stream.getReader();

    expect(await reader.read()).toEqual({ done: false, value: 'web' });
    expect((await reader.read()).done).toBe(true);
    await freed();
  });

  it.each(['before it is read', 'while a read waits for data'])(
    'releases when a web stream is cancelled: %s',
    async (moment) => {
      const { feeds, isFree, freed } = await start();
      const cancelled = new Gate<unknown>();
      const source = new ReadableStream({ cancel: () => cancelled.open('cancelled') });
      const reader = (await feeds.attach(source)).getReader();
      const read = moment.startsWith('while') ? reader.read() : Promise.resolve({ done: true });
      expect(await isFree()).toBe(false);

      await reader.cancel();

      expect([await cancelled.passed, (await read).done]).toEqual(['cancelled', true]);
      await freed();
    },
  );

  it('is locked until the source of a web stream has been cancelled', async () => {
    const { feeds, isFree, freed } = await start();
    const [asked, done] = [new Gate(), new Gate()];
    const cancel = async (): Promise<void> => {
      asked.open();
      await done.passed;
    };
    const stream = await feeds.attach(new ReadableStream({ cancel }));

    const cancelled = stream.cancel();
    await asked.passed;
    await turn();
    expect(await isFree()).toBe(false);
    done.open();

    await cancelled;
    await freed();
  });

  it('is held no longer than maxHold when nobody reads it', async () => {
    const lost = new Gate<unknown>();
    @Injectable()
    class Service {
      @Locked('unread', { ttl: 100, maxHold: 100 })
      async read(): Promise<Readable> {
        const stream = new Readable({ read: () => {} });
        currentLock()?.signal.addEventListener('abort', (event) => lost.open(event.type));
        return stream;
      }
    }
    const module = await startModule({ providers: [Service] });

    const stream = await module.get(Service).read();
    await lost.passed;

    await module.get(RedlockService).using('unread', { wait: 5_000 }, () => undefined);
    expect(stream.destroyed).toBe(true);
  });
});
