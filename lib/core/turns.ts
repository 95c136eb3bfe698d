// The turns of processes that want the same resource, as one of them knows them: when it tries, for
// how long it goes on, and for how long it lets others go first. PROTOCOL.md section 10.
import { Claim, Rest } from './overdue.js';
import type { Environment } from './environment.js';
import type { Told } from './lock-node.js';
import type { Milliseconds } from './units.js';

/** The head start of the process whose turn it is over the others that were woken. */
const HEAD_START: Milliseconds = 1;

/** How much later a process tries for each one that is ahead of it: time for that one's attempt. */
const TURN: Milliseconds = 3;

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
  /** Made when they are needed: most locks are never waited for. */
  #claim: Claim | null = null;
  #rest: Rest | null = null;

  /** Whether this process is overdue. */
  get isOverdue(): boolean {
    return this.#claim?.isMade === true;
  }

  /** Until when it rests for others that are overdue, unless it is so itself. */
  get restsUntil(): Milliseconds {
    return this.isOverdue ? 0 : (this.#rest?.until ?? 0);
  }

  /**
   * A release was heard, after which one process less is ahead. Who hears of the first one draws a
   * turn: as all do so, about one of them tries in each time that an attempt takes.
   */
  noteHeard({ listeners, overdue }: Told, environment: Environment): void {
    const now = environment.now();
    this.#racers = listeners;
    if (this.#hearsItself) {
      this.#hearsItself = false;
    } else {
      if (this.#ahead === null) this.#ahead = listeners * environment.random();
      else this.#ahead = Math.min(this.#ahead, listeners) - 1;
      this.noteTold(overdue, now);
      this.#claim ??= new Claim(now);
      this.#claim.noteHeard(listeners, overdue, now);
    }
    this.turnAt = now + this.#drawDelay(overdue, environment);
  }

  /** A call of this process has the lock, perhaps as the first in a row. */
  noteAcquired(now: Milliseconds): void {
    this.#claim = null;
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

  /** Others were told of a release, and so many of them are overdue. */
  noteTold(overdue: number, now: Milliseconds): void {
    this.#rest ??= new Rest();
    this.#rest.noteTold(overdue, now);
  }

  /** It was found taken: others have had their turn. */
  noteTaken(): void {
    this.#handOvers = 0;
  }

  /** Several tried at once and nobody got it: with other turns they will not meet again. */
  forget(): void {
    this.#ahead = null;
    this.turnAt = 0;
  }

  // For how long it waits after a release that was heard. Who is overdue does so for such only.
  #drawDelay(overdue: number, environment: Environment): Milliseconds {
    if (this.isOverdue) return overdue < 2 ? 0 : delayBehind(overdue * environment.random());
    const ahead = this.#ahead ?? 0;
    if (this.#racers < 2 || ahead <= 0) return 0;
    // A quarter of a turn sooner or later: otherwise some may try in step with the releases, and
    // others never win.
    return delayBehind(Math.max(0, ahead - 0.25 + environment.random() / 2));
  }
}

function delayBehind(ahead: number): Milliseconds {
  return HEAD_START + TURN * ahead;
}

/** Others are told of a release of all of these. Returns for how long they go first. */
export function yieldTime(all: readonly Turns[], now: Milliseconds): Milliseconds {
  // Who is overdue at some may want none of the others: these alone would rest each time.
  const restsUntil = Math.min(...all.map((turns) => turns.restsUntil));
  return Math.max(YIELD, restsUntil - now);
}
