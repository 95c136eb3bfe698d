import type { Instant, Visit } from '../lab/messages.js';

/** A piece of time. */
export interface Span {
  readonly from: Instant;
  readonly to: Instant;
}

/** When a visitor was inside; null for one who still waits or never came in. */
export function insideOf({ enteredAt, leftAt }: Visit, now: Instant): Span | null {
  return enteredAt === null ? null : { from: enteredAt, to: leftAt ?? Math.max(enteredAt, now) };
}

/**
 * When two or more visitors were inside at once: what a lock is there to prevent. Of those who have
 * left: who seems to be inside may have left meanwhile, as news of different processes take
 * different times, and the next one's may come first.
 */
export function overlapsOf(visits: readonly Visit[]): Span[] {
  const spans = visits
    .map(stayOf)
    .filter((span) => span !== null)
    .sort((a, b) => a.from - b.from);
  const overlaps: { from: Instant; to: Instant }[] = [];
  let end = -Infinity;
  for (const { from, to } of spans) {
    if (from < end) add(overlaps, from, Math.min(end, to));
    end = Math.max(end, to);
  }
  return overlaps;
}

/** The pieces of a visit that fall into overlaps. */
export function sharedOf(visit: Visit, overlaps: readonly Span[]): Span[] {
  const stay = stayOf(visit);
  if (stay === null) return [];
  return overlaps
    .map(({ from, to }) => ({ from: Math.max(from, stay.from), to: Math.min(to, stay.to) }))
    .filter(({ from, to }) => from < to);
}

function stayOf({ enteredAt, leftAt }: Visit): Span | null {
  return enteredAt === null || leftAt === null ? null : { from: enteredAt, to: leftAt };
}

function add(overlaps: { from: Instant; to: Instant }[], from: Instant, to: Instant): void {
  const last = overlaps.at(-1);
  if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to);
  else if (from < to) overlaps.push({ from, to });
}
