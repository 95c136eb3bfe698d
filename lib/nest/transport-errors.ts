// Turns lock errors into what each transport understands.
//
// The client gets a code, a fixed sentence and when to try again. Resource names and votes would
// reveal other users and the infrastructure: they stay on the `cause`.
import {
  HttpException,
  IntrinsicException,
  type ExecutionContext,
  type HttpServer,
} from '@nestjs/common';

import { checkNames, checkObject, describe } from '../core/option-checks.js';
import {
  LockTakenError,
  NoQuorumError,
  type RedlockError,
  type RedlockErrorCode,
} from '../core/errors.js';
import { boundKeyOf } from './locked-definition.js';
import { isAsyncIterable } from './result-checks.js';

/** HTTP statuses of lock errors, each from 400 to 599. */
export interface RedlockHttpStatus {
  /** Others hold the lock (LockTakenError). @default 423 Locked */
  readonly taken?: number | undefined;
  /**
   * Locks are not available for now (NoQuorumError, LockExpiredError, RedlockClosedError).
   * @default 503 Service Unavailable
   */
  readonly unavailable?: number | undefined;
  /** The lock was lost while the request ran (LockLostError). @default 500 */
  readonly lost?: number | undefined;
}

/** {@link RedlockHttpStatus}, complete. */
export type ResolvedHttpStatus = Readonly<Record<keyof RedlockHttpStatus, number>>;

const STATUSES: ResolvedHttpStatus = { taken: 423, unavailable: 503, lost: 500 };

/** @throws TypeError, RangeError naming the option, the rule and the value. */
export function resolveHttpStatus(given: RedlockHttpStatus = {}): ResolvedHttpStatus {
  checkObject('httpStatus', given);
  checkNames('httpStatus as in RedlockHttpStatus', given, STATUSES);
  const {
    taken = STATUSES.taken,
    unavailable = STATUSES.unavailable,
    lost = STATUSES.lost,
  } = given;
  const resolved = { taken, unavailable, lost };
  for (const [name, status] of Object.entries(resolved)) {
    if (Number.isInteger(status) && status >= 400 && status <= 599) continue;
    throw new RangeError(
      `Expected httpStatus.${name} to be an integer from 400 to 599, got ${describe(status)}`,
    );
  }
  return Object.freeze(resolved);
}

/** What a client is told, in every transport. */
interface Notice {
  readonly code: RedlockErrorCode;
  readonly message: string;
  readonly httpStatus: number;
  /** In whole seconds; null where trying again is not known to help. */
  readonly retryAfter: number | null;
}

/**
 * Makes the error to answer with: the transport's own with the original as its `cause`, or the
 * original where it has no counterpart. A LockReentryError is a mistake in the program: Nest logs
 * it and answers as to any other error, over HTTP with a 500.
 */
export async function toTransportError(
  error: RedlockError,
  context: ExecutionContext,
  httpStatus: ResolvedHttpStatus,
  httpServer: HttpServer | undefined,
): Promise<unknown> {
  const notice = noticeOf(error, httpStatus);
  const transport = context.getType<string>();
  if (notice === null) {
    // GraphQL servers send the message of any error whatsoever to the client.
    return transport === 'graphql' ? new Error('Internal server error', { cause: error }) : error;
  }
  switch (transport) {
    case 'http':
      setRetryAfter(notice, context, httpServer);
      return httpException(notice, error);
    case 'rpc':
      // Nobody is answered, and Nest 11 drops the RpcException of an event without a word.
      if (isEventHandler(context)) return error;
      return packageException('@nestjs/microservices', 'RpcException', notice, error);
    case 'ws':
      return packageException('@nestjs/websockets', 'WsException', notice, error);
    case 'graphql':
      return graphqlError(notice, error);
    default:
      return error;
  }
}

/**
 * Makes an async iterable of one whose steps fail with what `translate` makes of their errors.
 * Anything else comes out as it is.
 *
 * Not a generator, whose `return` would wait for a pending step: an idle subscription would keep
 * its lock after its client has gone.
 */
export function translateSteps(
  answer: unknown,
  translate: (error: unknown) => Promise<unknown>,
): unknown {
  if (!isAsyncIterable(answer)) return answer;
  const translated: object = new Proxy(answer[Symbol.asyncIterator](), {
    get(steps, key) {
      if (key === Symbol.asyncIterator) return () => translated;
      const take: unknown = Reflect.get(steps, key);
      if (typeof take !== 'function') return take;
      return async (...args: unknown[]): Promise<unknown> => {
        try {
          return (await Reflect.apply(take, steps, args)) as unknown;
        } catch (error) {
          throw await translate(error);
        }
      };
    },
  });
  return translated;
}

/** Whether Nest's `@EventPattern` is on it; the metadata are those of `@nestjs/microservices`. */
function isEventHandler(context: ExecutionContext): boolean {
  const handler = context.getHandler();
  const key = boundKeyOf(handler);
  const method: unknown =
    key === undefined ? handler : Reflect.get(context.getClass().prototype, key);
  return Reflect.getMetadata('microservices:handler_type', Object(method) as object) === 2;
}

/** What each error is to a client; null: a mistake in the program, and none of its business. */
const kinds: Readonly<Record<RedlockErrorCode, keyof RedlockHttpStatus | null>> = {
  LOCK_TAKEN: 'taken',
  NO_QUORUM: 'unavailable',
  LOCK_EXPIRED: 'unavailable',
  REDLOCK_CLOSED: 'unavailable',
  LOCK_LOST: 'lost',
  LOCK_REENTRY: null,
};

const messages: Readonly<Record<keyof RedlockHttpStatus, string>> = {
  taken: 'The resource is locked by another call',
  unavailable: 'Locks are not available at the moment',
  lost: 'The lock was lost before the call was done',
};

function noticeOf(error: RedlockError, httpStatus: ResolvedHttpStatus): Notice | null {
  const { code } = error;
  const kind = kinds[code];
  if (kind === null) return null;
  const retryAfter = kind === 'lost' ? null : secondsUntilRetry(error);
  return { code, message: messages[kind], httpStatus: httpStatus[kind], retryAfter };
}

/** In s, if nothing better is known: soon enough for a person, rare enough for a server. */
const RETRY_AFTER_DEFAULT = 1;

function secondsUntilRetry(error: RedlockError): number {
  const tells = error instanceof LockTakenError || error instanceof NoQuorumError;
  const known = tells ? error.retryAfter : null;
  return known === null ? RETRY_AFTER_DEFAULT : Math.max(1, Math.ceil(known / 1_000));
}

function setRetryAfter(
  { retryAfter }: Notice,
  context: ExecutionContext,
  httpServer: HttpServer | undefined,
): void {
  const response: unknown = context.switchToHttp().getResponse();
  // A response that has begun, such as server-sent events, takes no more headers.
  if (retryAfter === null || httpServer?.isHeadersSent(response) !== false) return;
  httpServer.setHeader(response, 'Retry-After', String(retryAfter));
}

function httpException(notice: Notice, cause: RedlockError): HttpException {
  const { httpStatus: statusCode, message, code } = notice;
  return new HttpException({ statusCode, message, error: code }, statusCode, { cause });
}

/**
 * With the `extensions` that Apollo and Mercurius send to the client. An IntrinsicException: Nest
 * logs any other error, with its cause, and a taken lock is no news.
 */
function graphqlError(notice: Notice, cause: RedlockError): Error {
  const exception = new IntrinsicException(notice.message, { cause });
  return Object.assign(exception, { extensions: payloadOf(notice) });
}

function payloadOf({ code, retryAfter }: Notice): Record<string, unknown> {
  return retryAfter === null ? { code } : { code, retryAfter };
}

/** The package's exception; the original if the package is not to be found. */
async function packageException(
  packageName: string,
  className: string,
  notice: Notice,
  cause: RedlockError,
): Promise<unknown> {
  const Exception = await loadException(packageName, className);
  if (Exception === null) return cause;
  const payload = { status: 'error', message: notice.message, ...payloadOf(notice) };
  const exception = new Exception(payload);
  // Neither class takes a cause.
  Object.defineProperty(exception, 'cause', { value: cause, configurable: true, writable: true });
  return exception;
}

type ExceptionClass = new (payload: object) => object;

async function loadException(
  packageName: string,
  className: string,
): Promise<ExceptionClass | null> {
  try {
    // Named by a variable: the peer is optional, so neither compiler nor bundler may insist on it.
    const loaded = (await import(packageName)) as Record<string, unknown>;
    const found = loaded[className];
    return typeof found === 'function' ? (found as ExceptionClass) : null;
  } catch {
    // Not installed where we can see it: the caller then answers with the original error.
    return null;
  }
}
