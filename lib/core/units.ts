import { checkNumber } from './option-checks.js';

/** A duration, or an instant on a named clock, in milliseconds. */
export type Milliseconds = number;

/** An instant on a node's wall clock, in microseconds since 1970: exact in a double until 2255. */
export type Microseconds = number;

/**
 * Converts seconds to milliseconds, for options: `ttl: seconds(5)`.
 * Rounds to whole milliseconds, the unit of the protocol.
 * @throws TypeError, RangeError for what is not a number of at least 0.
 */
export function seconds(count: number): Milliseconds {
  return Math.round(checkNumber('seconds', count, 0, Infinity) * 1_000);
}

/**
 * Converts minutes to milliseconds, for options: `holdAtLeast: minutes(1)`.
 * Rounds to whole milliseconds, the unit of the protocol.
 * @throws TypeError, RangeError for what is not a number of at least 0.
 */
export function minutes(count: number): Milliseconds {
  return Math.round(checkNumber('minutes', count, 0, Infinity) * 60_000);
}
