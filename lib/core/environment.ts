// The one seam for time and randomness. Everything that could differ between two runs of the
// same program enters the library here, so that a simulation can replay a run from a seed.
import { AsyncResource } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import * as timers from 'node:timers';

import { hasMethods, wrongType } from './option-checks.js';
import type { Milliseconds } from './units.js';

/** A started timer, to be handed back to {@link Environment.stopTimer}; never null. */
export type TimerHandle = unknown;

/** A timer is early by less than this: Node cuts delays, and its clock, to whole ms. */
export const TIMER_ERROR: Milliseconds = 2;

/** Where the library gets time, timers and randomness from. */
export interface Environment {
  /**
   * Monotonic time since an arbitrary start, in ms with fractions. Never steps. It may stand
   * still while the machine is suspended; the suspend guard allows for that.
   */
  now(): Milliseconds;

  /**
   * Wall-clock time since 1970, in ms. May step. It proposes fencing tokens, and ends a lock early
   * when it runs ahead of {@link now} by more than a second (or the ttl's drift, where that is
   * longer), as after the machine slept.
   */
  wallClock(): Milliseconds;

  /**
   * Calls back once, `delay` ms (with fractions, up to 2_147_483_647) from now or later, or sooner
   * by less than 2 ms, as timers of Node do. A timer somebody waits for keeps the process alive
   * (`holdsProcess`); one that only notifies or extends never does.
   */
  startTimer(delay: Milliseconds, callback: () => void, holdsProcess: boolean): TimerHandle;

  /** Stops a timer; one that has fired already, or null in place of one, is left alone. */
  stopTimer(timer: TimerHandle): void;

  /** A number of at least 0 and less than 1. Need not be unpredictable. */
  random(): number;

  /** 128 unpredictable bits as 32 hexadecimal digits, unique over all processes and times. */
  randomId(): string;
}

// Captured at load: fake timers or a replaced Date in an application's tests must not move
// the clocks that a lock's validity is measured by, nor hold back what is sent and answered.
const { performance, Date, queueMicrotask } = globalThis;
// Not those of globalThis: in jest's environment of jsdom they are a browser's.
const { setTimeout, clearTimeout, setImmediate, clearImmediate } = timers;
const monotonicNow = performance.now.bind(performance);
const wallNow = Date.now.bind(Date);

/** Calls back when the code that is running now has ended. */
export const inMicrotask = queueMicrotask;

/** From within a microtask: calls back when all microtasks are done, also those they start. */
export const afterMicrotasks: (callback: () => void) => void = process.nextTick.bind(process);

/**
 * Calls back when this tick, a turn of the event loop, has handled all that had arrived: whatever
 * it resumes, by however many callbacks, has asked by then.
 */
export const atTickEnd: (callback: () => void) => void = setImmediate;

/** A moment of {@link Environment.wallClock} for people: ISO 8601, in UTC. */
export function toIsoTime(moment: Milliseconds): string {
  return new Date(moment).toISOString();
}

/**
 * The same function, always run in the present async context. Otherwise a timer or a call that
 * several callers share would run in the context of whoever started it.
 */
export function bindToContext<Given extends unknown[], Result>(
  callback: (...given: Given) => Result,
): (...given: Given) => Result {
  return new BoundContext('nestjs-locked').bind(callback);
}

class BoundContext extends AsyncResource {
  // Test runners ask this of what may keep a process alive, and without an answer report it.
  hasRef(): boolean {
    return false;
  }
}

/** For each timer that has fired, the turn of the event loop in which it calls back. */
const turns = new WeakMap<object, NodeJS.Immediate>();

/** The clocks, timers and randomness of this process. */
export const systemEnvironment: Environment = {
  now: monotonicNow,
  wallClock: wallNow,
  startTimer(delay, callback, holdsProcess) {
    // Node runs timers before it reads what arrived while the process was blocked: answers that
    // have already arrived would come too late.
    const onTime = (): unknown => turns.set(timer, setImmediate(callback));
    const timer = unrefUnless(setTimeout(onTime, delay), holdsProcess);
    return timer;
  },
  stopTimer(timer) {
    clearTimeout(timer as NodeJS.Timeout);
    clearImmediate(turns.get(timer as NodeJS.Timeout));
  },
  random: Math.random.bind(Math),
  randomId: () => randomBytes(16).toString('hex'),
};

/** @throws TypeError unless `environment` has all methods of one. */
export function checkEnvironment(environment: unknown): Environment {
  const names = Object.keys(systemEnvironment);
  if (hasMethods(environment, names)) return environment as object as Environment;
  throw wrongType('environment', 'an Environment', environment);
}

/**
 * The clocks, timers and randomness of this process, with clocks and timers looked up at each use:
 * fake timers of jest or vitest move the time of locks, and so end them. For tests, and only as
 * good as the fakes, which must include `performance`.
 */
export function fakeTimersEnvironment(): Environment {
  return {
    ...systemEnvironment,
    now: () => globalThis.performance.now(),
    wallClock: () => globalThis.Date.now(),
    startTimer(delay, callback, holdsProcess) {
      const timer = globalThis.setTimeout(callback, delay) as NodeJS.Timeout | number;
      // A number in jsdom, where timers hold no process.
      return typeof timer === 'number' ? timer : unrefUnless(timer, holdsProcess);
    },
    stopTimer(timer) {
      globalThis.clearTimeout(timer as NodeJS.Timeout);
    },
  };
}

function unrefUnless(timer: NodeJS.Timeout, holdsProcess: boolean): NodeJS.Timeout {
  return holdsProcess ? timer : timer.unref();
}
