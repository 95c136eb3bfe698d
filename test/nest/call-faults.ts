// What is wrong with calls at random, by what the model foretells; null where nothing is.
import {
  LockLostError,
  LockReentryError,
  LockTakenError,
  RedlockError,
  type Lock,
} from 'nestjs-locked';

import { statusOf } from './call-clients.js';
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
export function isLockOf({ fate, resources }: Call, lock: Lock): boolean {
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
  // Of a response that is over with the handler, the endpoint tells it.
  const isTold = endpoint !== null && way !== 'steps';
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

/** Whether the result goes on after the call, and may be left before its end. */
export function isStreamed({ way }: Call): boolean {
  return way === 'steps' || way === 'values';
}
