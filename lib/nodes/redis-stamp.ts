// How a reply is recognised as the reply to its call.
//
// Redis names no command in a reply. If one is lost or doubled on the way, all that follow go to
// the wrong commands, and what one owner is told would grant another's lock. So every call of a
// script has a tag, the first of ARGV, and every reply begins with a stamp: what it counts, times
// 100, plus the tag. That is one number, because answering with a list costs a server more.
import type { Microseconds } from '../core/units.js';

/** How many calls in a row each have a tag of their own, from 0 on. */
export const TAGS = 100;

/** Lua for the stamp of a count. */
export const stamped = (count: string): string => `${count} * ${TAGS} + ARGV[1]`;

/**
 * Lua for the stamp of the node's time, in tenths of a ms, rounded up: rounded down, the bound that
 * a node's clock sets for tokens would look like one that a token has set.
 */
export const STAMPED_TIME = `now - now % -${TAGS} + ARGV[1]`;

/** The node's time, which a stamp counts in units of {@link TAGS} µs: the tag stands below them. */
export function timeOf(count: number): Microseconds {
  return count * TAGS;
}

/**
 * A reply with what its stamp counts in place of the stamp: a number, or a list that begins with
 * one. Null if the reply is to another call than that of `tag`.
 */
export function unstamped(reply: unknown, tag: number): number | readonly unknown[] | null {
  if (!Array.isArray(reply)) return countIn(reply, tag);
  const [stamp, ...rest] = reply as unknown[];
  const count = countIn(stamp, tag);
  return count === null ? null : [count, ...rest];
}

function countIn(stamp: unknown, tag: number): number | null {
  if (typeof stamp !== 'number') return null;
  const count = (stamp - tag) / TAGS;
  return Number.isSafeInteger(count) && count >= 0 ? count : null;
}
