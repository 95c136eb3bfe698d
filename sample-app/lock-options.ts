import { seconds, type RedlockOptions } from 'nestjs-locked';

/** How this application locks: the same in all of its replicas. */
export const lockOptions = {
  // No lock here lives longer than this without being extended. A node that has just started does
  // not vote for as long, as it may have forgotten locks: with the default of 30 s, brand-new nodes
  // would keep the first visitor waiting for 30 s.
  ttlMax: seconds(5),
  ttl: seconds(3),
  // The nodes may be somebody's own Redis servers.
  keyPrefix: 'sample-app:',
} as const satisfies RedlockOptions;
