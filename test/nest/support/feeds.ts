// A service whose methods return what goes on after the call, all under the lock of one resource.
import { Readable } from 'node:stream';

import { expect } from '@jest/globals';
import { Injectable, StreamableFile } from '@nestjs/common';
import {
  currentLock,
  Locked,
  LockTakenError,
  RedlockService,
  type Lock,
  type RedlockModuleOptions,
} from 'nestjs-locked';
import { concat, defer, from, lastValueFrom, Observable, of, Subject, throwError } from 'rxjs';

import { startModule } from './applications.js';
import { faultyNodes } from './faulty-nodes.js';
import { aborted, Gate, turn } from './events.js';

export const source = { values: new Subject<number>(), subscriptions: 0 };

@Injectable()
export class Feeds {
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
      return 8;
    },
  })
  async *generateInstead(): AsyncGenerator<number, number> {
    yield 1;
    return 2;
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
export async function* untilComplete(): AsyncGenerator<never> {
  yield* [];
  await lastValueFrom(source.values, { defaultValue: 0 });
}

export async function start(options: RedlockModuleOptions = {}) {
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
export function subscribe<T>(observable: Observable<T>) {
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
export async function emit(value: number): Promise<void> {
  while (!source.values.observed) await turn();
  source.values.next(value);
}
