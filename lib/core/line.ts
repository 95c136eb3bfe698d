import type { TimerHandle } from './environment.js';
import type { Milliseconds } from './units.js';
import type { WakeUps } from './wake-ups.js';
import type { Waiter } from './waiter.js';

/** The queue of one resource in this process, and what it knows of other processes. */
export class Line {
  readonly resource: string;
  /** In the order of arrival, but for those whose callers hold what others wait for. */
  readonly waiters: Waiter[];
  wakeUps: WakeUps | null = null;
  /** How often in a row it went from call to call of this process. */
  handOvers = 0;
  /** When this process got what it has handed over since. */
  acquiredAt: Milliseconds = 0;
  /**
   * Whether other processes go first: while they are being told ('telling'), and for a while after
   * that, until this timer is over; null where they do not.
   */
  yields: TimerHandle = null;
  /** Whether a release is under way. A call that comes meanwhile follows it as if it had waited. */
  isReleasing = false;
  /** How many processes the last wake-up woke, the one that released not counted. */
  racers = 0;
  /** Races after wake-ups since this process last had the lock. */
  races = 0;

  constructor(resource: string, ...waiters: Waiter[]) {
    this.resource = resource;
    this.waiters = waiters;
  }
}

/**
 * The queues in which somebody waits for what is held in these, or behind somebody who does, each
 * with the first such place. All from there on wait for it.
 */
export function placesBehind(held: readonly Line[]): ReadonlyMap<Line, number> {
  const places = new Map<Line, number>();
  const behind: Waiter[] = [];
  const addFrom = (line: Line, place: number): void => {
    if (place < 0) return;
    for (const waiter of line.waiters.slice(place, places.get(line))) behind.push(waiter);
    places.set(line, place);
  };
  for (const line of held) {
    const first = line.waiters.findIndex(({ isHolding }) => !isHolding);
    addFrom(line, first);
  }
  // Grows meanwhile. Looked for is only where it would be a new first place.
  for (const waiter of behind) {
    for (const line of waiter.lines) {
      addFrom(line, line.waiters.slice(0, places.get(line)).indexOf(waiter));
    }
  }
  return places;
}
