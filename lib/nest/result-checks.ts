// What kind of result a method returned: whether it goes on after the call, and in which way.
import { ReadableStream } from 'node:stream/web';

import { hasMethods, isObject } from '../core/option-checks.js';
import type { Observable } from 'rxjs';

/** The part of Node's Readable that is needed; streams of other libraries have it too. */
export interface ClosableStream extends NodeJS.ReadableStream {
  destroy(error?: unknown): unknown;
  readonly readableFlowing?: boolean | null;
  readonly readableDidRead?: boolean;
}

/** Whether a result can come later than the call; if not, the method is synchronous. */
export function isDeferred(result: unknown): boolean {
  return isPromiseLike(result) || isOngoing(result);
}

/** Whether a result goes on after it was returned. */
export function isOngoing(result: unknown): boolean {
  return isObservable(result) || isAsyncIterable(result) || streamOf(result) !== null;
}

/**
 * Whether an endpoint's answer is sent as a stream. Not for a method's own result: a Response that
 * the method has fetched is rarely read to its end.
 */
export function isStreamed(value: unknown): boolean {
  if (isObservable(value) || isPromiseLike(value)) return false;
  return isOngoing(value) || hasStreamingBody(value);
}

/**
 * Whether `value` is an Observable, of whatever copy of rxjs. By what it inherits: a mock that
 * answers to every name would pass for one, be wrapped, and keep its lock for want of subscribers.
 */
export function isObservable(value: unknown): value is Observable<unknown> {
  return isObject(value) && makesObservables(Reflect.getPrototypeOf(value));
}

/** Whether what has this prototype is an Observable, which a Subject is too. */
export function makesObservables(prototype: unknown): boolean {
  return isObject(prototype) && 'lift' in prototype && 'subscribe' in prototype;
}

/** The Node stream that a result is, or that a StreamableFile has; null for anything else. */
export function streamOf(result: unknown): ClosableStream | null {
  // A StreamableFile of any copy of Nest; other classes may have a `getStream` too.
  if (hasMethods(result, ['getStream', 'getHeaders', 'setErrorHandler'])) {
    return streamOf(Reflect.apply(result.getStream, result, []));
  }
  const isReadable = hasMethods(result, ['pipe', 'read', 'on', 'once', 'destroy']);
  return isReadable ? (result as unknown as ClosableStream) : null;
}

/** Whether `value` is a Response whose body nobody has read yet. */
export function hasStreamingBody(
  value: unknown,
): value is { readonly body: ReadableStream } & Response {
  // By its tag, as Nest does it: the Response of the package undici is another class.
  if (!isObject(value) || value[Symbol.toStringTag] !== 'Response') return false;
  return value.body instanceof ReadableStream && !value.bodyUsed;
}

/** Whether `value` can be awaited. */
export function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return typeof (Object(value) as Partial<PromiseLike<unknown>>).then === 'function';
}

/** Whether `value` can be iterated by `for await`. */
export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown, unknown> {
  return isObject(value) && Symbol.asyncIterator in value;
}
