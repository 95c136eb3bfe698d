// Results that go on after the call: the lock lasts until they have ended, failed or been
// dropped. If the lock is lost first, they fail with the LockLostError.
import { finished } from 'node:stream';
import { ReadableStream } from 'node:stream/web';

import { defer, Observable, Subject, takeUntil, type ObservableInput } from 'rxjs';

import { whenAborted } from '../core/abort-listener.js';
import { afterMicrotasks } from '../core/environment.js';
import { hasStreamingBody, isObservable, streamOf } from './result-checks.js';
import type { Hold } from './lock-hold.js';
import type { ClosableStream } from './result-checks.js';

/** Ends an ongoing result that nobody has begun to read, and with it the hold. */
export function dropUnread(result: unknown): void {
  const stream = streamOf(result);
  if (stream !== null) {
    if (stream.readableFlowing !== null || stream.readableDidRead) return;
    // A file that could not be opened may report that later.
    stream.once('error', ignoreHere);
    stream.destroy();
    return;
  }
  const body = hasStreamingBody(result) ? result.body : result;
  if (body instanceof ReadableStream) afterMicrotasks(() => cancelUnread(body));
  else (body as Droppable)[dropKey]?.();
}

// When Nest has had its chance to take the stream: if the client has gone Nest cancels it quietly,
// but one that is cancelled already Nest reports as an error of the handler.
function cancelUnread(stream: ReadableStream): void {
  // Rejects where it is read.
  void stream.cancel().catch(ignoreHere);
}

/**
 * On an Observable or iterable under a hold: ends the hold if nobody has begun to read. A global
 * symbol, as the endpoint's interceptor may be that of another copy of the package.
 */
const dropKey = Symbol.for('nestjs-locked.drop');
interface Droppable {
  readonly [dropKey]?: () => void;
}

/**
 * Makes the hold last as long as a result that goes on after the call. Observables, async
 * iterables and web streams come out as wrappers, Node streams and StreamableFiles as they are.
 */
export function holdWhileOngoing(result: unknown, hold: Hold): unknown {
  const held = holdOngoing(result, hold);
  hold.onOngoing?.(held);
  return held;
}

function holdOngoing(result: unknown, hold: Hold): unknown {
  const stream = streamOf(result);
  if (stream !== null) {
    holdUntilClosed(stream, hold, stream !== result);
    return result;
  }
  if (isObservable(result)) return holdWhileObserved(() => result, hold);
  if (result instanceof ReadableStream) return holdWhileRead(result, hold);
  if (hasStreamingBody(result)) {
    // Where the types of browsers are loaded too, their streams differ from Node's.
    const body = holdWhileRead(result.body, hold) as unknown as Response['body'];
    // The type tells Nest that a fetched body is decoded already, whatever the headers say.
    return Object.defineProperty(new Response(body, result), 'type', { value: result.type });
  }
  return holdWhileIterated(() => result as AsyncIterable<unknown>, hold);
}

/**
 * Makes an Observable under the hold. The hold ends with the last of the subscriptions that began
 * while it lasted. Subscribing later fails, as nothing would be locked any more.
 */
export function holdWhileObserved(
  source: () => ObservableInput<unknown>,
  hold: Hold,
): Observable<unknown> {
  let observers = 0;
  let isOver = false;
  const endUnlessObserved = (end: () => Promise<void>): Promise<void> => {
    isOver ||= observers === 0;
    return observers === 0 ? end() : Promise.resolve();
  };
  // Without subscribers, nothing else would end the hold.
  const drop = (): void => void endUnlessObserved(hold.endQuietly);
  const stop = onLoss(hold, drop);
  const observable = new Observable((subscriber) => {
    // From now on the last to leave ends the hold, and each retry would leave a listener behind.
    stop();
    const left = new Subject<void>();
    let isLeaving = false;
    const leave = (end: () => Promise<void>): Promise<void> => {
      if (isLeaving) return Promise.resolve();
      isLeaving = true;
      observers -= 1;
      return endUnlessObserved(end);
    };
    // Added first, as what follows may end the subscription at once.
    subscriber.add(() => {
      void leave(hold.endQuietly);
      left.next();
    });
    observers += 1;
    if (isOver) subscriber.error(hold.lock.lostError());
    else subscriber.add(onLoss(hold, (reason) => subscriber.error(reason)));
    if (subscriber.closed) return;
    // defer makes a source that throws fail; takeUntil ends one that emits everything at once.
    const held = defer(source).pipe(takeUntil(left));
    hold.run(() =>
      held.subscribe({
        next: (value) => subscriber.next(value),
        error: (error) => void leave(hold.endQuietly).then(() => subscriber.error(error)),
        complete: () =>
          void leave(hold.end).then(
            () => subscriber.complete(),
            (error: unknown) => subscriber.error(error),
          ),
      }),
    );
  });
  return Object.assign(observable, {
    [dropKey]: () => {
      stop();
      drop();
    },
  });
}

/**
 * Makes an async iterable under the hold. The hold ends with the iteration; iterating again gives
 * nothing. Losing the lock ends a pending step at once; the keys stay until it is really over.
 *
 * Not a generator: that would make `return` wait for a pending step, which in a feed waits for
 * news, and would not learn of a `return` before the first step.
 */
export function holdWhileIterated(
  source: () => AsyncIterable<unknown>,
  hold: Hold,
): AsyncGenerator<unknown, unknown> {
  let inner: InnerIterator | null = null;
  let pending = 0;
  let isOver = false;
  // Each step runs in the context of the lock: a generator's body resumes in its caller's context.
  const run = <T>(take: (from: InnerIterator) => T): T =>
    hold.run(() => take((inner ??= source()[Symbol.asyncIterator]())));
  const abandon = (): void => {
    // Async, as `return` need not give a promise, and may throw.
    const ended = (async () => run((from) => from.return?.()))();
    void ended.then(hold.endQuietly, hold.endQuietly);
  };
  const step = async (take: (from: InnerIterator) => Step, givesUp = false): Step => {
    if (isOver) return take(endedGenerator());
    pending += 1;
    try {
      const result = await unlessLost(hold, () => run(take));
      isOver ||= result.done === true;
      return result;
    } catch (error) {
      isOver = givesUp = true;
      throw error;
    } finally {
      pending -= 1;
      if (isOver) stop();
      // Not awaited: a step that hangs must not keep the LockLostError from the consumer.
      if (givesUp && !hold.lock.isValid) abandon();
      // If other steps are still under way, the last of them ends the hold.
      else if (isOver && pending === 0) await (givesUp ? hold.endQuietly() : hold.end());
    }
  };
  // A consumer that takes no step, or no further one, never comes back to learn of the loss.
  const stop = onLoss(hold, abandon);
  const held = {
    next: (...value: [] | [unknown]) => step((from) => from.next(...value)),
    return: (value: unknown) =>
      step(async (from) => (await from.return?.(value)) ?? { done: true, value }, true),
    throw: (error: unknown) =>
      step(async (from) => {
        if (from.throw !== undefined) return from.throw(error);
        await from.return?.();
        throw error;
      }),
    [Symbol.asyncIterator]: () => held,
    [Symbol.asyncDispose]: () => held.return(undefined),
    [dropKey]: () => {
      // As a consumer that leaves before its first step.
      if (inner === null) held.return(undefined).catch(ignoreHere);
    },
  };
  return held as Droppable as AsyncGenerator<unknown, unknown>;
}

type InnerIterator = AsyncIterator<unknown, unknown>;
type Step = Promise<IteratorResult<unknown, unknown>>;

/** Like a generator that has ended: gives nothing, and throws what is thrown into it. */
async function* endedGenerator(): AsyncGenerator<never, undefined> {}

function holdWhileRead(stream: ReadableStream, hold: Hold): ReadableStream {
  return ReadableStream.from(holdWhileIterated(() => readingOf(stream), hold));
}

/** Like a web stream's own iteration, but ending it does not wait for a pending read. */
function readingOf(stream: ReadableStream): AsyncIterable<unknown> {
  const reader = stream.getReader();
  const cancel = async (): Promise<IteratorResult<unknown>> => {
    await reader.cancel();
    return { done: true, value: undefined };
  };
  const reading = { next: () => reader.read(), return: cancel };
  return { [Symbol.asyncIterator]: () => reading };
}

function unlessLost<T>(hold: Hold, take: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    // One listener per step: racing with one long-lived promise would leak a reaction per step.
    const stop = onLoss(hold, reject);
    if (hold.lock.signal.aborted) return;
    // Async, as an iterator's steps need not be promises, and may throw.
    const taken = (async () => take())();
    taken.finally(stop).then(resolve, reject);
  });
}

function holdUntilClosed(stream: ClosableStream, hold: Hold, isFile: boolean): void {
  const stop = onLoss(hold, (cause) => {
    // If nobody listens yet, an 'error' would end the process. Readers still get it.
    stream.once('error', ignoreHere);
    // Nest 11 sends a file's error message to the client; that of a loss names resources and nodes.
    const message = 'The lock was lost before the file was sent';
    stream.destroy(isFile ? new Error(message, { cause }) : cause);
  });
  // When it closes, or at its end if it never closes. Errors are left to the reader.
  finished(stream, { writable: false, error: false }, () => {
    stop();
    void hold.endQuietly();
  });
}

/** Calls back when the lock is lost, at once if it already is. Returns how to stop that. */
function onLoss({ lock, run }: Hold, interrupt: (reason: unknown) => void): () => void {
  // The signal itself calls back in the context that read it first: a retry would run in there.
  return whenAborted(lock.signal, (reason) => run(() => interrupt(reason)));
}

function ignoreHere(): void {
  // Nobody waits for what is dropped, and with holdUntilClosed the reader gets the error.
}
