import type { Instant } from './messages.js';

/** Now, by the clock that all processes of this machine share. */
export function now(): Instant {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}
