import { Linked, LinkedList } from './linked-list.js';
import type { FailedAttempt } from './attempt.js';
import type { Environment, TimerHandle } from './environment.js';
import type { Milliseconds } from './units.js';
import type { WakeUps } from './wake-ups.js';
import type { Waiter } from './waiter.js';

/** The head start of the process whose turn it is over the others that were woken. */
const HEAD_START: Milliseconds = 1;

/** How much later a process tries for each one that is ahead of it: time for that one's attempt. */
const TURN: Milliseconds = 3;

/** How many of its turns a process misses before it leaves more to chance. */
const MISSED_MAX = 3;

/** How much later, at most, it then tries every other time. */
const CHANCE: Milliseconds = 60;

/** How often in a row a lock passes between calls of one process before others go first. */
const HAND_OVERS_MAX = 16;

/**
 * For how long after its first acquisition a lock is still handed over. If calls hold it for long,
 * 16 in a row take longer than other processes wait, and telling these is cheap in comparison.
 */
const HAND_OVERS_TIME: Milliseconds = 50;

/** The same for a process that has waited for longer than others: it seldom comes in time. */
const SHARE_MAX: Milliseconds = 200;

/** How long others are told in vain before they get more time: 100 ms, a sixth of all time. */
const TOLD_IN_VAIN_MAX: Milliseconds = 500;

/** One call's place in the queue of one resource. */
export class Place extends Linked<Place> {
  /** @internal A mark of {@link placesBehind}; a set of thousands takes several times as long. */
  isBehind = false;

  constructor(
    readonly line: Line,
    readonly waiter: Waiter,
  ) {
    super();
  }
}

/**
 * The queue of one resource in this process, and what it knows of other processes. In the order of
 * arrival, except for calls whose callers hold what others wait for.
 */
export class Line extends LinkedList<Place> {
  readonly resource: string;
  wakeUps: WakeUps | null = null;
  /** How often in a row the lock passed between calls of this process. */
  handOvers = 0;
  /** When this process got the lock that it has handed over since. */
  #acquiredAt: Milliseconds = 0;
  /** Half of what each other process, on average, had of the time in which this one waited. */
  #share: Milliseconds = 0;
  /** When this process released the lock last; not yet, before it did. */
  #releasedAt: Milliseconds = Infinity;
  /**
   * What ends the time in which other processes go first: 'told' stands for the answers of the
   * release that tells them, anything else is a timer. Null when they do not go first.
   */
  yieldEnd: TimerHandle = null;
  /** Since when others have been told without getting the lock; null when they got it. */
  toldInVainSince: Milliseconds | null = null;
  /** Whether a release is under way. A call that comes meanwhile follows it as if it had waited. */
  isReleasing = false;
  /**
   * From when on this process tries, on the monotonic clock. Redis tells its subscribers in a fixed
   * order, and the first would win every time; and where many try at once, nobody gets a quorum.
   */
  turnAt: Milliseconds = 0;
  /** How many that wait are thought to go before this process; null until it draws a turn. */
  #ahead: number | null = null;
  /** How many processes were told of the last release that was heard; many, until one was. */
  #racers = Infinity;
  /** Whether the next release that is heard is this process's own. */
  #hearsItself = false;
  /** The last attempt of this process, if too few nodes could vote; null if enough did. */
  outage: FailedAttempt | null = null;
  /** How many of its calls may be passed: a queue of thousands without any is not searched. */
  passable = 0;

  constructor(resource: string) {
    super();
    this.resource = resource;
  }

  /**
   * How many that wait are thought to go before this process; below zero when it has missed turns,
   * as others were faster. Infinite until others are heard to release it, and after its own turn.
   */
  get ahead(): number {
    return this.#ahead ?? Infinity;
  }

  /** Who goes first; null where nobody has a place. */
  get head(): Waiter | null {
    return this.first?.waiter ?? null;
  }

  /** Whether more than one call has a place. */
  get isShared(): boolean {
    return this.first !== this.last;
  }

  /** The first place of a call that has no lock yet; null where there is none. */
  get firstWaiting(): Place | null {
    return this.find(({ isHolding }) => !isHolding);
  }

  /** The first place of such a waiter; null where there is none. */
  find(isSuch: (waiter: Waiter) => boolean): Place | null {
    let place = this.first;
    while (place !== null && !isSuch(place.waiter)) place = place.next;
    return place;
  }

  /** All who have a place. */
  *waiters(): IterableIterator<Waiter> {
    for (let place = this.first; place !== null; place = place.next) yield place.waiter;
  }

  /** Gives `waiter` a place before another one, or the last place. */
  add(waiter: Waiter, before: Place | null): Place {
    const place = new Place(this, waiter);
    // Before it has the place: should the stack be used up here, nobody would give that back.
    this.passable += Number(waiter.mayBePassed);
    this.insert(place, before);
    return place;
  }

  override remove(place: Place): void {
    super.remove(place);
    this.passable -= Number(place.waiter.mayBePassed);
  }

  /**
   * A release was heard, after which one process less is ahead. Who hears of the first one draws a
   * turn: as all do so, about one of them tries in each time that an attempt takes.
   */
  noteRelease(racers: number, environment: Environment): void {
    this.#racers = racers;
    if (this.#hearsItself) {
      this.#hearsItself = false;
    } else {
      // Another process had the lock: those who were told of its releases were not told in vain.
      this.toldInVainSince = null;
      if (this.#ahead === null) this.#ahead = racers * environment.random();
      else this.#ahead = Math.min(this.#ahead, racers) - 1;
    }
    const ahead = this.#ahead ?? 0;
    this.turnAt = environment.now();
    if (racers < 2 || ahead <= 0) return;
    // A quarter of a turn sooner or later: otherwise some may try in step with the releases, and
    // others never win.
    const turns = Math.max(0, ahead - 0.25 + environment.random() / 2);
    this.turnAt += HEAD_START + TURN * turns;
  }

  /** A call of this process has the lock, perhaps as the first in a row. */
  noteAcquired(now: Milliseconds): void {
    if (this.handOvers > 0) return;
    this.#acquiredAt = now;
    this.#share = Math.min(SHARE_MAX, (now - this.#releasedAt) / (2 * this.#racers));
  }

  /** Whether other processes go first, as this one has handed the lock over for long enough. */
  isOthersTurn(now: Milliseconds): boolean {
    const time = now - this.#acquiredAt;
    if (this.#share > HAND_OVERS_TIME) return time > this.#share;
    return this.handOvers >= HAND_OVERS_MAX || time > HAND_OVERS_TIME;
  }

  /** This process releases the lock: all others who wait by now have their turns before it. */
  endTurn(now: Milliseconds): void {
    this.#releasedAt = now;
    this.#ahead = Infinity;
    this.turnAt = 0;
    this.#hearsItself = this.wakeUps?.isLive === true;
  }

  /** Several tried at once and nobody got it: with other turns they will not meet again. */
  forgetTurn(): void {
    this.#ahead = null;
    this.turnAt = 0;
  }
}

/**
 * When a call may try. If others were faster in all its queues, they are nearer, and have the lock
 * again whenever it tries at once: by chance it tries later, and may come after a later release.
 * A resource that others were not heard to release says nothing: perhaps only its caller wants it.
 */
export function turnOf({ places }: Waiter, environment: Environment): Milliseconds {
  const turnAt = Math.max(...places.map(({ line }) => line.turnAt));
  const heard = places.map(({ line }) => line.ahead).filter(Number.isFinite);
  const isPassedOver = heard.length > 0 && Math.max(...heard) <= -MISSED_MAX;
  return isPassedOver ? turnAt + CHANCE * Math.max(0, 2 * environment.random() - 1) : turnAt;
}

/**
 * Notes that others are told of a release of these. Returns whether they should get more time: for
 * half a second they were told in vain, as this process was faster each time. Then it counts anew.
 */
export function noteTold(lines: readonly Line[], now: Milliseconds): boolean {
  let inVain: Milliseconds = 0;
  for (const line of lines) {
    line.toldInVainSince ??= now;
    inVain += now - line.toldInVainSince;
  }
  // On average, as all of them rest together: else calls for many would rest for each of them.
  if (inVain < TOLD_IN_VAIN_MAX * lines.length) return false;
  for (const line of lines) line.toldInVainSince = null;
  return true;
}

/** Each once, however many of the lines it heads: a call may want hundreds of resources. */
export function headsOf(lines: readonly Line[]): Waiter[] {
  const heads: Waiter[] = [];
  for (const { head } of lines) {
    if (head !== null && !heads.includes(head)) heads.push(head);
  }
  return heads;
}

/**
 * The queues in which a call has one of these places, or one behind such a call, each with the
 * first such place. All calls from that place on wait for one of these calls.
 */
export function placesBehind(starts: readonly (Place | null)[]): ReadonlyMap<Line, Place> {
  const firsts = new Map<Line, Place>();
  const behind: Place[] = [];
  const addFrom = (first: Place | null): void => {
    if (first === null || first.isBehind) return;
    firsts.set(first.line, first);
    for (let place: Place | null = first; place !== null && !place.isBehind; place = place.next) {
      place.isBehind = true;
      behind.push(place);
    }
  };
  starts.forEach(addFrom);
  // The array grows meanwhile.
  for (const { waiter } of behind) waiter.places.forEach(addFrom);
  for (const place of behind) place.isBehind = false;
  return firsts;
}

/** Calls whose callers hold locks go before `waiter` if it may be passed. Returns them. */
export function letPass({ mayBePassed, places }: Waiter): readonly Waiter[] {
  const passing: Waiter[] = [];
  for (const place of mayBePassed ? places : []) {
    let other = place.next;
    while (other !== null) {
      const { line, next, waiter } = other;
      if (waiter.isInside) {
        line.remove(other);
        line.insert(other, place);
        passing.push(waiter);
      }
      other = next;
    }
  }
  return passing;
}
