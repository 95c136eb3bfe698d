// What is wrong with calls at random, by what the model foretells; null where nothing is.
import { HttpException } from '@nestjs/common';
import { RpcException } from '@nestjs/microservices';
import { WsException } from '@nestjs/websockets';
import {
  LockLostError,
  LockReentryError,
  LockTakenError,
  RedlockError,
  type Lock,
} from 'nestjs-locked';

import type { Client } from './call-clients.js';
import type { Call } from './calls.js';

/** What comes of a call that does without its lock. */
export const WITHOUT = 'without';

/** What is wrong with the body that a call has got. */
export function faultOfStart(call: Call, lock: Lock): string | null {
  const { fate } = call;
  if (fate === 'refused') return 'runs although the context has a lock';
  if (lock.isLost()) return 'begins although its lock is lost';
  if (isLockOf(call, lock)) return null;
  return fate === 'own' ? `has the lock of ${lock.resources.join()}` : 'does not join';
}

/** Whether this may be the lock that a call gets, by what it is of, or whose it is. */
function isLockOf({ fate, resources }: Call, lock: Lock): boolean {
  if (fate === 'own') return lock.resources.join() === resources.join();
  if (fate === 'refused') return false;
  const { ownerId, fencingToken } = fate.lock;
  return lock.ownerId === ownerId && lock.fencingToken === fencingToken;
}

/** What is wrong with the end of a call. */
export function faultOfEnd(
  call: Call,
  result: unknown,
  error: unknown,
  now: number,
): string | null {
  const { body, client, endpoint, fate, way } = call;
  // Who has left is not told of the end.
  if (fate !== 'refused' && isStreamed(call) && client.hasLeft) return null;
  if (call.isWithout && error === call.failure) {
    const isFine = error !== undefined || result === WITHOUT;
    return isFine ? null : `does without and gives ${String(result)}`;
  }
  if (fate === 'refused' || body === null) return faultOfFailure(call, error, now);
  if (body.owner === null && body.lock.isValid) return 'is over and still has its lock';
  const wasHeld = body.isOpen ? body.lock.isValid : body.wasHeld;
  if (error instanceof LockLostError && error !== body.error) {
    if (wasHeld) return `held its lock: ${String(error)}`;
    // What goes on after the call may fail before its body has ended.
    return isStreamed(call) || error.result === body.result ? null : 'loses its result';
  }
  if (error !== body.error) return `hides ${String(body.error)} behind ${String(error)}`;
  if (result !== body.result) return `gives ${String(result)} for ${String(body.result)}`;
  // Of a response that is over with the handler, the endpoint tells it; by hand, only the lock does.
  const isTold = (endpoint !== null && way !== 'steps') || way === 'acquire';
  return error === undefined && !wasHeld && !isTold ? 'hides that its lock was lost' : null;
}

/** What is wrong with the error of a call that has not run. */
export function faultOfFailure(call: Call, error: unknown, now: number): string | null {
  const { body, calledAt, client, endpoint, fate, isOptional } = call;
  if (fate === 'refused') {
    const isRefused = error instanceof LockReentryError && body === null && now === calledAt;
    return isRefused ? null : `is not refused at once: ${String(error)}`;
  }
  if (isOptional && error instanceof LockTakenError) return `may do without: ${String(error)}`;
  const isLeft = endpoint === null ? error === client.signal.reason : statusOf(error) === 499;
  if (client.hasLeft && isLeft) return null;
  const isFine =
    fate === 'own'
      ? error instanceof RedlockError && !(error instanceof LockReentryError)
      : // Of an endpoint, before its handler began.
        error instanceof LockLostError && !fate.lock.isValid;
  return isFine ? null : `does not run: ${String(error)}`;
}

/** The status that an endpoint answers with; null where the error has none. */
export function statusOf(error: unknown): number | null {
  return error instanceof HttpException ? error.getStatus() : null;
}

/** Whether the result goes on after the call, and may be left before its end. */
export function isStreamed({ way }: Call): boolean {
  return way === 'steps' || way === 'values';
}

/** What a lock error was before it was translated. */
export function originalOf(error: unknown): unknown {
  return error instanceof Error && error.cause instanceof RedlockError ? error.cause : error;
}

/** What is wrong with what a client is told of a lock error; null where nothing is. */
export function faultOfTranslation(error: unknown, { transport }: Client): string | null {
  const original = originalOf(error);
  if (!(original instanceof RedlockError)) return null;
  const { code } = original;
  // A mistake in the program has no translation.
  const named = code === 'LOCK_REENTRY' ? undefined : code;
  const [told, due] =
    transport === 'http' ? [statusOf(error), STATUSES[code]] : [codeOf(error), named];
  return told === due ? null : `tells of ${String(original)} by ${String(told)}`;
}

const STATUSES = {
  LOCK_TAKEN: 423,
  NO_QUORUM: 503,
  LOCK_EXPIRED: 503,
  REDLOCK_CLOSED: 503,
  LOCK_LOST: 500,
  LOCK_REENTRY: null,
};

function codeOf(error: unknown): unknown {
  const isPackaged = error instanceof RpcException || error instanceof WsException;
  const told: unknown = isPackaged
    ? error.getError()
    : Reflect.get(Object(error) as object, 'extensions');
  return Reflect.get(Object(told) as object, 'code');
}
