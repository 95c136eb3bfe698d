/** A duration, or an instant on a named clock, in milliseconds. */
export type Milliseconds = number;

/** An instant on a node's wall clock, in microseconds since 1970: exact in a double until 2255. */
export type Microseconds = number;

/**
 * Converts seconds to milliseconds, for options: `ttl: seconds(5)`.
 * Rounds to whole milliseconds, the unit of the protocol.
 */
export function seconds(count: number): Milliseconds {
  return Math.round(count * 1_000);
}

/**
 * Converts minutes to milliseconds, for options: `holdAtLeast: minutes(1)`.
 * Rounds to whole milliseconds, the unit of the protocol.
 */
export function minutes(count: number): Milliseconds {
  return Math.round(count * 60_000);
}
