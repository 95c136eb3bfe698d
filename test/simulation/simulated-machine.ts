// The machine that a client runs on: its clocks, and one thread that may stand still at any
// moment. A pause in the middle of synchronous code is modelled by running that code early: what
// it does takes effect when the machine has got there, and nothing else runs there before.
import type { Environment } from '../../lib/core/environment.js';
import type { Random } from './random.js';
import type { Scheduler, SimulatedEvent } from './scheduler.js';
import type { SimulatedClock } from './simulated-clock.js';

/** In ms. What is less is rounding: to wait for it would not move the clock. */
const EARLY_MAX = 1e-6;

/** One client's machine. Its processes come and go. */
export class SimulatedMachine {
  /** Until when, in true time, its thread is at work or stands still. */
  busyUntil = 0;
  /** How long its thread has stood still altogether. */
  paused = 0;
  readonly #pausesAtRead = new Map<number, number>();
  readonly #onCommand = new Map<number, () => void>();
  #commands = 0;
  /** After a pause either timers or answers come first. */
  #timerDelay = 0;
  #reads = 0;
  #isProbing = false;

  constructor(
    readonly name: string,
    readonly scheduler: Scheduler,
    readonly random: Random,
    readonly monotonic: SimulatedClock,
    readonly wall: SimulatedClock,
  ) {}

  /** How far the machine has got, in true time. */
  get trueNow(): number {
    return Math.max(this.scheduler.now, this.busyUntil);
  }

  /** Stands still for `duration` from where it has got. */
  pause(duration: number): void {
    this.busyUntil = this.trueNow + duration;
    this.#timerDelay = this.random.chance(0.5) ? 0.001 : 0;
    this.paused += duration;
  }

  /** Stands still right after reading a clock for the `read`-th time. */
  pauseAtRead(read: number, duration: number): void {
    this.#pausesAtRead.set(read, duration);
  }

  /** Calls back when its processes send their `count`-th command. */
  atCommand(count: number, action: () => void): void {
    this.#onCommand.set(count, action);
  }

  noteCommand(): void {
    this.#commands += 1;
    const action = this.#onCommand.get(this.#commands);
    if (action !== undefined) this.scheduler.at(this.trueNow, action);
  }

  /** When a timer that was due during a pause may fire. */
  get timersFrom(): number {
    return this.busyUntil + this.#timerDelay;
  }

  /** Sleeps as a suspended machine does: its monotonic clock stands still as well. */
  suspend(duration: number): void {
    this.monotonic.step(this.trueNow, -duration * this.monotonic.rate);
    this.pause(duration);
  }

  readMonotonic(): number {
    const value = this.monotonic.read(this.trueNow);
    if (!this.#isProbing) this.noteRead();
    return value;
  }

  readWall(): number {
    const value = this.wall.read(this.trueNow);
    if (!this.#isProbing) this.noteRead();
    return value;
  }

  /** Looks without a pause after the look: what a checker learns is true now. */
  probe<Value>(look: () => Value): Value {
    this.#isProbing = true;
    try {
      return look();
    } finally {
      this.#isProbing = false;
    }
  }

  /** Runs `action` on the machine's thread: at once, or when it is free. */
  run(action: () => void): void {
    if (this.busyUntil > this.scheduler.now) {
      this.runAfter(0, action);
      return;
    }
    this.perform(action);
  }

  /** Runs `action` on the machine's thread `delay` ms of true time from now, or when it is free. */
  runAfter(delay: number, action: () => void): SimulatedEvent {
    const { scheduler } = this;
    const attempt = (): void => {
      if (this.busyUntil > scheduler.now) {
        scheduler.postpone(event, this.busyUntil, attempt);
        return;
      }
      this.perform(action);
    };
    const event = scheduler.at(this.trueNow + delay, attempt, this);
    return event;
  }

  /** Does on the machine's thread, which is free, what is due now. */
  perform(action: () => void): void {
    this.scheduler.needsDrain = true;
    action();
  }

  /** A number for the program that runs here: at least 0 and less than 1. */
  draw(): number {
    return this.random.next();
  }

  protected noteRead(): void {
    this.#reads += 1;
    const duration = this.#pausesAtRead.get(this.#reads);
    if (duration !== undefined) this.pause(duration);
  }
}

/** The environment of one process: after its end nothing calls back any more. */
export class SimulatedEnvironment implements Environment {
  isEnded = false;
  #ids = 0;

  constructor(
    readonly machine: SimulatedMachine,
    private readonly name: string,
  ) {}

  now(): number {
    return this.machine.readMonotonic();
  }

  wallClock(): number {
    return Math.floor(this.machine.readWall());
  }

  startTimer(delay: number, callback: () => void): SimulatedEvent {
    const { machine } = this;
    // As in Node: whole ms, and what does not fit becomes 1.
    const whole = delay >= 1 && delay <= 2_147_483_647 ? Math.trunc(delay) : 1;
    const dueAt = machine.monotonic.read(machine.trueNow) + whole;
    // Node compares whole ms: a timer may fire a fraction early.
    const jitter = machine.random.next() * 2 - 0.8;
    const fire = (): void => {
      const early = dueAt - 1 - machine.monotonic.read(machine.trueNow);
      if (early > EARLY_MAX) machine.scheduler.postpone(event, machine.scheduler.now + early, fire);
      else if (machine.timersFrom > machine.scheduler.now) {
        machine.scheduler.postpone(event, machine.timersFrom, fire);
      } else if (!this.isEnded) machine.perform(callback);
    };
    const wait = Math.max(0, whole + jitter) / machine.monotonic.rate;
    const event = machine.scheduler.at(machine.trueNow + wait, fire);
    return event;
  }

  stopTimer(timer: unknown): void {
    if (timer !== null) this.machine.scheduler.cancel(timer as SimulatedEvent);
  }

  random(): number {
    return this.machine.draw();
  }

  randomId(): string {
    this.#ids += 1;
    return `${this.name}.${this.#ids}`;
  }
}
