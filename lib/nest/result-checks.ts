// What kind of thing a method returned: whether it goes on after the call, and in which way.
import { ReadableStream } from 'node:stream/web';

import { isObservable } from 'rxjs';

/** What is needed of Node's Readable; that of another copy or library will do too. */
export interface ClosableStream extends NodeJS.ReadableStream {
  destroy(error?: unknown): unknown;
  readonly readableFlowing?: boolean | null;
  readonly readableDidRead?: boolean;
}

/** Whether a result can come later than the call; anything else is of a synchronous method. */
export function isDeferred(result: unknown): boolean {
  return isPromiseLike(result) || isOngoing(result);
}

/** Whether a result goes on after it was returned. */
export function isOngoing(result: unknown): boolean {
  return isObservable(result) || isAsyncIterable(result) || streamOf(result) !== null;
}

/**
 * Whether an endpoint's answer is sent as it comes. A method's own result is not asked so, as a
 * Response that it has fetched is rarely read to its end.
 */
export function isStreamed(value: unknown): boolean {
  if (isObservable(value) || isPromiseLike(value)) return false;
  return isOngoing(value) || hasStreamingBody(value);
}

/** The Node stream that a result is, or that a StreamableFile has; null of anything else. */
export function streamOf(result: unknown): ClosableStream | null {
  // StreamableFile, of whichever copy of Nest. A `getStream` alone is anybody's.
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
  // By its tag, as Nest has it: that of the package undici is another class.
  if (!isObject(value) || value[Symbol.toStringTag] !== 'Response') return false;
  return value.body instanceof ReadableStream && !value.bodyUsed;
}

function hasMethods<Name extends string>(
  value: unknown,
  names: readonly Name[],
): value is Record<Name, () => unknown> {
  return isObject(value) && names.every((name) => typeof value[name] === 'function');
}

/** Whether `value` can be awaited. */
export function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return typeof (Object(value) as Partial<PromiseLike<unknown>>).then === 'function';
}

/** Whether `value` can be iterated by `for await`. */
export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown, unknown> {
  return isObject(value) && Symbol.asyncIterator in value;
}

/** Whether `value` has properties to look for; a function is none. */
export function isObject(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === 'object' && value !== null;
}
