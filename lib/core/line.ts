import type { TimerHandle } from './environment.js';
import type { Milliseconds } from './units.js';
import type { WakeUps } from './wake-ups.js';
import type { Waiter } from './waiter.js';

/** The queue of one resource in this process, and what it knows of other processes. */
export class Line {
  readonly resource: string;
  /** In the order of arrival. */
  readonly waiters: Waiter[];
  wakeUps: WakeUps | null = null;
  handOvers = 0;
  /** When this process got what it has handed over since. */
  acquiredAt: Milliseconds = 0;
  /**
   * Whether other processes go first: while they are being told ('telling'), and for a while after
   * that, until this timer is over; null where they do not.
   */
  yields: TimerHandle = null;
  /** Whether a release is under way. A call that comes meanwhile follows it as if it had waited. */
  isReleased = false;
  /** How many processes the last wake-up woke, the one that released not counted. */
  racers = 0;
  /** Races after wake-ups since this process last had the lock. */
  races = 0;

  constructor(resource: string, ...waiters: Waiter[]) {
    this.resource = resource;
    this.waiters = waiters;
  }
}
