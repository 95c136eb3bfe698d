// How long rounds wait for the nodes. PROTOCOL.md section 4.5.
//
// Rounds that have the same time end in the order in which they began, so one timer is enough for
// all of them. One for each would be garbage that every lock makes twice.
import { bindToContext, TIMER_ERROR, type Environment, type TimerHandle } from './environment.js';
import { Linked, LinkedList } from './linked-list.js';
import { TransientMap } from './transient-map.js';
import type { Milliseconds } from './units.js';

/** Ends a round in which too few nodes answer. */
export class RoundTimer extends Linked<RoundTimer> {
  /** @internal Whether the nodes have their time once more. */
  isSecond = false;

  constructor(
    /** @internal */
    public startedAt: Milliseconds,
    readonly onTimeout: () => void,
    /** @internal Null when it is over. */
    public queue: RoundQueue | null,
  ) {
    super();
  }

  stop(): void {
    this.queue?.end(this);
  }
}

/** The timers of all rounds of one process. */
export class RoundTimers {
  readonly #environment: Environment;
  readonly #queues = new TransientMap<Milliseconds, RoundQueue>();
  // In the async context of the start, because it ends everybody's rounds.
  readonly #onTime = bindToContext((queue: RoundQueue) => queue.onTime());

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  /**
   * Calls back `timeout` ms from now. If that is late, it begins once more: this process was busy,
   * and what it asks leaves it only when the tick ends, so that the nodes have had less time.
   */
  start(timeout: Milliseconds, onTimeout: () => void): RoundTimer {
    return (this.#queues.get(timeout) ?? this.#addQueue(timeout)).start(onTimeout);
  }

  #addQueue(timeout: Milliseconds): RoundQueue {
    const onTime = (): void => this.#onTime(queue);
    const onEmpty = (): void => this.#queues.delete(timeout);
    const queue = new RoundQueue(this.#environment, timeout, onTime, onEmpty);
    this.#queues.set(timeout, queue);
    return queue;
  }
}

/** The rounds that have the same time, in the order of their ends. */
class RoundQueue extends LinkedList<RoundTimer> {
  readonly #environment: Environment;
  readonly #timeout: Milliseconds;
  readonly #onTime: () => void;
  readonly #onEmpty: () => void;
  #timer: TimerHandle = null;

  constructor(
    environment: Environment,
    timeout: Milliseconds,
    onTime: () => void,
    onEmpty: () => void,
  ) {
    super();
    this.#environment = environment;
    this.#timeout = timeout;
    this.#onTime = onTime;
    this.#onEmpty = onEmpty;
  }

  start(onTimeout: () => void): RoundTimer {
    // Before the clock is read: after a pause between the two, the timer would be found late.
    if (this.first === null) this.#startTimer(this.#timeout);
    const round = new RoundTimer(this.#environment.now(), onTimeout, this);
    this.insert(round);
    return round;
  }

  end(round: RoundTimer): void {
    round.queue = null;
    this.remove(round);
    if (this.first !== null) return;
    this.#environment.stopTimer(this.#timer);
    this.#onEmpty();
  }

  onTime(): void {
    const now = this.#environment.now();
    for (let round = this.first; round !== null; round = this.first) {
      const left = round.startedAt + this.#timeout - now;
      // A timer cannot measure less.
      if (left >= 1) {
        this.#startTimer(left);
        return;
      }
      if (left < -TIMER_ERROR && !round.isSecond) {
        this.#startAgain(round, now);
      } else {
        this.end(round);
        round.onTimeout();
      }
    }
  }

  #startAgain(round: RoundTimer, now: Milliseconds): void {
    this.remove(round);
    round.isSecond = true;
    round.startedAt = now;
    this.insert(round);
  }

  #startTimer(delay: Milliseconds): void {
    this.#timer = this.#environment.startTimer(delay, this.#onTime, true);
  }
}
