import { Linked, LinkedList } from './linked-list.js';
import { Turns } from './turns.js';
import type { FailedAttempt } from './attempt.js';
import type { TimerHandle } from './environment.js';
import type { WakeUps } from './wake-ups.js';
import type { Waiter } from './waiter.js';

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
 * The queue of one resource in this process: in the order of arrival, except for calls whose
 * callers hold what others wait for.
 */
export class Line extends LinkedList<Place> {
  readonly resource: string;
  readonly turns = new Turns();
  wakeUps: WakeUps | null = null;
  /**
   * What ends the time in which other processes go first: 'told' stands for the answers of the
   * release that tells them, anything else is a timer. Null when they do not go first.
   */
  yieldEnd: TimerHandle = null;
  /** Whether a release is under way. A call that comes meanwhile follows it as if it had waited. */
  isReleasing = false;
  /** The last attempt of this process, if too few nodes could vote; null if enough did. */
  outage: FailedAttempt | null = null;
  /** How many of its calls may be passed: a queue of thousands without any is not searched. */
  passable = 0;

  constructor(resource: string) {
    super();
    this.resource = resource;
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
