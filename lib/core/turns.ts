// The turns of processes that want the same resource, as one of them knows them: when it tries, for
// how long it goes on, and for how long it lets others go first. PROTOCOL.md section 10.
import type { Environment } from './environment.js';
import type { Milliseconds } from './units.js';

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

/**
 * How long other processes go first once they were told: time to hear of it, draw their delays and
 * ask the nodes. After that, whoever finds the resource still free may have it.
 */
const YIELD: Milliseconds = 5;

/** The same once they were told in vain for long: time for a process 90 ms away, or a busy one. */
const LONG_YIELD: Milliseconds = 100;

/** For how long they are told in vain before that: it is a sixth of all time. */
const TOLD_IN_VAIN_MAX: Milliseconds = 500;

/** What a process knows of the turns at one resource. */
export class Turns {
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
  /** How often in a row the lock passed between calls of this process. */
  #handOvers = 0;
  /** When this process got the lock that it has handed over since. */
  #acquiredAt: Milliseconds = 0;
  /** Half of what each other process, on average, had of the time in which this one waited. */
  #share: Milliseconds = 0;
  /** When this process released the lock last; not yet, before it did. */
  #releasedAt: Milliseconds = Infinity;
  /** Since when others have been told without getting the lock; null when they got it. */
  toldInVainSince: Milliseconds | null = null;

  /**
   * How many that wait are thought to go before this process; below zero when it has missed turns,
   * as others were faster. Infinite until others are heard to release it, and after its own turn.
   */
  get ahead(): number {
    return this.#ahead ?? Infinity;
  }

  /**
   * A release was heard, after which one process less is ahead. Who hears of the first one draws a
   * turn: as all do so, about one of them tries in each time that an attempt takes.
   */
  noteHeard(racers: number, environment: Environment): void {
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
    if (this.#handOvers > 0) return;
    this.#acquiredAt = now;
    this.#share = Math.min(SHARE_MAX, (now - this.#releasedAt) / (2 * this.#racers));
  }

  /** Whether other processes go first, as this one has handed the lock over for long enough. */
  isOthersTurn(now: Milliseconds): boolean {
    const time = now - this.#acquiredAt;
    if (this.#share > HAND_OVERS_TIME) return time > this.#share;
    return this.#handOvers >= HAND_OVERS_MAX || time > HAND_OVERS_TIME;
  }

  /**
   * This process releases the lock: all others who wait by now have their turns before it. Unless
   * it is left to them, it goes on: then that counts as one more in a row.
   */
  noteReleased(now: Milliseconds, isLeftToOthers: boolean, isListening: boolean): void {
    this.#releasedAt = now;
    this.#ahead = Infinity;
    this.turnAt = 0;
    this.#hearsItself = isListening;
    this.#handOvers = isLeftToOthers ? 0 : this.#handOvers + 1;
  }

  /** It was found taken: others have had their turn. */
  noteTaken(): void {
    this.#handOvers = 0;
    this.toldInVainSince = null;
  }

  /** Several tried at once and nobody got it: with other turns they will not meet again. */
  forget(): void {
    this.#ahead = null;
    this.turnAt = 0;
  }
}

/**
 * When a call for all of these may try. If others were faster each time, they are nearer, and have
 * the lock again whenever it tries at once: by chance it tries later, and may come after a later
 * release. What others were not heard to release says nothing: perhaps nobody else wants it.
 */
export function turnOf(all: readonly Turns[], environment: Environment): Milliseconds {
  const turnAt = Math.max(...all.map((turns) => turns.turnAt));
  const heard = all.map(({ ahead }) => ahead).filter(Number.isFinite);
  const isPassedOver = heard.length > 0 && Math.max(...heard) <= -MISSED_MAX;
  return isPassedOver ? turnAt + CHANCE * Math.max(0, 2 * environment.random() - 1) : turnAt;
}

/**
 * Others are told of a release of all of these. Returns for how long they go first: for longer when
 * they were told in vain for half a second, as this process was faster each time. That counts anew.
 */
export function yieldTime(all: readonly Turns[], now: Milliseconds): Milliseconds {
  let inVain: Milliseconds = 0;
  for (const turns of all) {
    turns.toldInVainSince ??= now;
    inVain += now - turns.toldInVainSince;
  }
  // On average, as all of them rest together: else calls for many would rest for each of them.
  if (inVain < TOLD_IN_VAIN_MAX * all.length) return YIELD;
  for (const turns of all) turns.toldInVainSince = null;
  return LONG_YIELD;
}
