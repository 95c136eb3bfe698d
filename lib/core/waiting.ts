// Who waits for what in this process, and who may try. PROTOCOL.md section 10.
//
// One FIFO queue per resource, headed by the call that holds the lock or tries to get it, so that
// calls of one process never vote each other down. A released lock goes straight to the next call
// of this process, but only so many times in a row; then other processes are told, and if any
// listens it goes first.
import { FirstAttempts } from './first-attempts.js';
import { headsOf, letPass, Line, placesBehind } from './line.js';
import { RestingCalls } from './resting-calls.js';
import { TransientMap } from './transient-map.js';
import { yieldTime } from './turns.js';
import { WakeUps } from './wake-ups.js';
import type { Ensemble } from './ensemble.js';
import type { TimerHandle } from './environment.js';
import type { Place } from './line.js';
import type { Told } from './lock-node.js';
import type { Milliseconds } from './units.js';
import type { Waiter } from './waiter.js';

/** The queues of one process. */
export class WaitingRoom {
  readonly firstAttempts = new FirstAttempts();
  /** The calls of this process that pause between two attempts. */
  readonly resting: RestingCalls;
  readonly #ensemble: Ensemble;
  readonly #lines = new TransientMap<string, Line>();

  constructor(ensemble: Ensemble) {
    this.#ensemble = ensemble;
    this.resting = new RestingCalls(ensemble.environment);
  }

  /** How many calls wait or try. */
  get size(): number {
    return this.#waiting().size;
  }

  /**
   * Queues on all resources in one step, so that two calls can never wait for each other; before
   * those that wait for what the caller already holds (`held`), and those that may be passed.
   */
  enter(waiter: Waiter, held: readonly string[]): void {
    waiter.isInside = held.length > 0;
    const lines = waiter.resources.map((resource) => this.#lineOf(resource));
    const behind = waiter.isInside ? this.#placesBehind(held, lines) : null;
    // Not a literal: ARCHITECTURE.md, "What a lock leaves behind".
    const places = Array.of<Place>();
    // One by one: where the stack is used up half way, it leaves the queues that it is in.
    waiter.places = places;
    for (const line of lines) places.push(line.add(waiter, behind?.get(line) ?? null));
  }

  /** The waiter has tried in vain: if it may be passed, calls whose callers hold locks do so. */
  giveWay(waiter: Waiter): void {
    for (const passing of letPass(waiter)) if (this.mayTry(passing)) passing.wake();
  }

  /** Whether the waiter may try: no call is ahead of it, and no other process goes first. */
  mayTry(waiter: Waiter): boolean {
    return waiter.places.every(({ line }) => line.head === waiter && line.yieldEnd === null);
  }

  /**
   * Whether all calls ahead of it already hold locks, so that none of them is passed over. Where it
   * heads all its queues and others go first, it resolves once they are told, or after `limit` ms:
   * a script call that asks for the lock too tells nobody.
   * @throws the reason of the interruption.
   */
  async isNext(waiter: Waiter, limit: Milliseconds): Promise<boolean> {
    const isTelling = waiter.places.some(({ line }) => line.yieldEnd === 'told');
    if (isTelling && this.#headsAll(waiter)) await waiter.pause(limit);
    return waiter.places.every((place) => place.line.firstWaiting === place);
  }

  /**
   * Listens for releases by other processes. Returns whether none goes unheard; if one may, the
   * waiter is woken as soon as that is over. If a connection is lost later, only its poll is left.
   */
  listen(waiter: Waiter): boolean {
    let isLive = true;
    for (const { line } of waiter.places) {
      line.turns.noteTaken();
      line.wakeUps ??= this.#listenTo(line);
      isLive &&= line.wakeUps.isLive;
    }
    return isLive;
  }

  /**
   * The waiter tries now: only what is heard from now on is worth another attempt. Returns whether
   * other calls of this process queue behind it, so that it may hand its lock over.
   */
  noteAttempt(waiter: Waiter): boolean {
    let isFollowed = waiter.hasBody;
    waiter.isWoken = false;
    for (const { line } of waiter.places) {
      line.wakeUps?.forget();
      waiter.isSuccessor ||= line.isReleasing;
      isFollowed &&= line.isShared;
    }
    return isFollowed;
  }

  /**
   * Rests until a release by another process was heard and it is the turn of this one. Where it
   * hears nothing further, it rests for no longer than `drawRest` and `patience` say.
   * @throws the reason of the interruption.
   */
  async restUntilTurn(
    waiter: Waiter,
    drawRest: () => Milliseconds,
    patience: () => Milliseconds,
  ): Promise<void> {
    const { environment } = this.#ensemble;
    let isWoken = await this.resting.rest(waiter, drawRest(), patience());
    // Each release that is heard meanwhile brings the turn nearer.
    while (isWoken) {
      const turnAt = Math.max(...waiter.places.map(({ line }) => line.turns.turnAt));
      const delay = Math.min(turnAt - environment.now(), drawRest(), patience());
      if (delay < 1) return;
      isWoken = await waiter.pause(delay);
    }
  }

  /** The waiter has its lock from now on, and stays at the head of its queues until that ends. */
  hold(waiter: Waiter): void {
    const now = this.#ensemble.environment.now();
    const wasPassable = Number(waiter.mayBePassed);
    waiter.isHolding = true;
    for (const { line } of waiter.places) {
      line.passable -= wasPassable;
      line.outage = null;
      line.turns.noteAcquired(now);
      line.wakeUps?.claim(false);
      this.#tidy(line);
    }
  }

  /** Leaves all queues (lock lost or call given up) and wakes those who head all of theirs now. */
  leave(waiter: Waiter): void {
    this.#wakeHeads(this.#remove(waiter));
  }

  /**
   * Leaves all queues because its lock is being released. Returns the calls of this process that
   * go next, at once and on all its resources; none when other processes are to be told.
   */
  handOn(waiter: Waiter): readonly Waiter[] {
    for (const { line } of waiter.places) line.isReleasing = true;
    // A lost lock has left its queues before: the call after it has tried in vain, and listens. A
    // lock got behind a call that does not know yet that it lost its own heads only some of them.
    const headed = this.#remove(waiter);
    const now = this.#ensemble.environment.now();
    const heads = headed.length === waiter.places.length ? this.#nextOf(headed, now) : [];
    const isHandedOn = heads.length > 0;
    for (const { line } of waiter.places) {
      // A head that wants more than was freed tries before others are told: that counts too.
      const isLeftToOthers = !isHandedOn && line.turns.isOthersTurn(now);
      if (isLeftToOthers) line.yieldEnd = 'told';
      line.turns.noteReleased(now, isLeftToOthers, line.wakeUps?.isLive === true);
    }
    this.#wakeHeads(headed);
    return heads;
  }

  /** A release was answered: the other processes that were told of it go first. */
  onReleased(resources: readonly string[], { listeners, overdue }: Told): void {
    if (listeners > 0) {
      const lines = resources.map((resource) => this.#lineOf(resource));
      const now = this.#ensemble.environment.now();
      for (const { turns } of lines) turns.noteTold(overdue, now);
      this.#yield(lines);
    }
    this.#endYield(resources, 'told');
  }

  /** Makes all who wait give up, each for a reason that names what it waited for. */
  interruptAll(reasonFor: (resources: readonly string[]) => unknown): void {
    for (const waiter of this.#waiting()) waiter.interrupt(reasonFor(waiter.resources));
  }

  // Who is about to try is not passed, and gives way when that was in vain.
  #placesBehind(held: readonly string[], wanted: readonly Line[]): ReadonlyMap<Line, Place> {
    const waiting = held.map((resource) => this.#lines.get(resource)?.firstWaiting ?? null);
    const isPassed = (waiter: Waiter): boolean => waiter.mayBePassed && !this.mayTry(waiter);
    const passed = wanted.map((line) => (line.passable > 0 ? line.find(isPassed) : null));
    return placesBehind([...waiting, ...passed]);
  }

  #waiting(): ReadonlySet<Waiter> {
    const waiters = [...this.#lines.values()].flatMap((line) => [...line.waiters()]);
    return new Set(waiters.filter(({ isHolding }) => !isHolding));
  }

  // One timer for all lines, so that a call that waits for all of them is woken once. A line whose
  // next release others are told of gets a later timer.
  #yield(lines: readonly Line[]): void {
    const { environment } = this.#ensemble;
    const resources = lines.map(({ resource }) => resource);
    const turns = lines.map((line) => line.turns);
    const delay = yieldTime(turns, environment.now());
    const end = (): void => this.#endYield(resources, timer);
    const timer = environment.startTimer(delay, end, false);
    for (const line of lines) line.yieldEnd = timer;
  }

  #endYield(resources: readonly string[], event: TimerHandle): void {
    const lines: Line[] = [];
    for (const resource of resources) {
      const line = this.#lines.get(resource);
      if (line === undefined) continue;
      if (line.yieldEnd === event) line.yieldEnd = null;
      if (event === 'told') line.isReleasing = false;
      lines.push(line);
      this.#tidy(line);
    }
    this.#wakeHeads(lines);
  }

  #listenTo(line: Line): WakeUps {
    return new WakeUps(this.#ensemble, line.resource, {
      onLive: () => this.#wakeHeads([line]),
      onWake: (told) => this.#onWake(line, told),
    });
  }

  #onWake(line: Line, told: Told): void {
    const { environment } = this.#ensemble;
    const { turns } = line;
    const now = environment.now();
    const wasResting = turns.restsUntil > now;
    turns.noteHeard(told, environment);
    line.wakeUps?.claim(turns.isOverdue);
    // While others are told of a release of this process, they go first in any case.
    if (line.yieldEnd !== 'told') {
      if (turns.restsUntil > now) this.#yield([line]);
      else if (wasResting) line.yieldEnd = null;
    }
    this.#wakeHeads([line]);
  }

  // Returns the queues that it headed.
  #remove(waiter: Waiter): Line[] {
    const headed: Line[] = [];
    if (waiter.hasLeft) return headed;
    waiter.hasLeft = true;
    for (const place of waiter.places) {
      const { line } = place;
      if (line.head === waiter) headed.push(line);
      line.remove(place);
      this.#tidy(line);
    }
    return headed;
  }

  // A subscription ends with the last call that waits, the line with the last that has a place.
  #tidy(line: Line): void {
    if (line.wakeUps !== null && line.firstWaiting === null) {
      line.wakeUps.stop();
      line.wakeUps = null;
    }
    const isInUse = line.head !== null || line.isReleasing || line.yieldEnd !== null;
    if (!isInUse) this.#lines.delete(line.resource);
  }

  // A call that is already woken is skipped: a release is told for each resource, and a call that
  // wants a thousand would look at all its queues each time.
  #wakeHeads(lines: readonly Line[]): void {
    for (const head of headsOf(lines)) {
      if (!head.isWoken && this.#headsAll(head)) head.wake();
    }
  }

  // The heads of the lines, if it is not others' turn and all will try as soon as they are woken.
  // A head that wants more than these lines may not get it: then nobody would have been told.
  #nextOf(lines: readonly Line[], now: Milliseconds): readonly Waiter[] {
    const mayGo = (line: Line): boolean => line.head !== null && !line.turns.isOthersTurn(now);
    if (!lines.every(mayGo)) return [];
    const freed = new Set(lines);
    const willTry = (head: Waiter): boolean =>
      head.isPausing && this.mayTry(head) && head.places.every(({ line }) => freed.has(line));
    const heads = headsOf(lines);
    return heads.every(willTry) ? heads : [];
  }

  #headsAll({ places }: Waiter): boolean {
    return places.every(({ line, waiter }) => line.head === waiter);
  }

  #lineOf(resource: string): Line {
    let line = this.#lines.get(resource);
    if (line === undefined) {
      line = new Line(resource);
      this.#lines.set(resource, line);
    }
    return line;
  }
}
