import { currentLock, type Lock } from 'nestjs-locked';

/** The lock that the running `@Locked` method holds: its `signal` and its `fencingToken`. */
export function heldLock(): Lock {
  const lock = currentLock();
  if (lock === undefined) throw new Error('Expected to run inside a @Locked method');
  return lock;
}
