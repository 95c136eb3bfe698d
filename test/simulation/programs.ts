// What the callers of a client do: the steps of task-plan.ts, through the public API alone.
import { LockLostError, NoQuorumError, RedlockError } from '../../lib/core/errors.js';
import { nodeTimeoutOf } from '../../lib/core/options.js';
import { ClaimWatch } from './checks/claim-check.js';
import { GaveUp, nameOf } from './simulated-process.js';
import type { Lock } from '../../lib/core/lock.js';
import type { ClaimCheck } from './checks/claim-check.js';
import type { SimulatedProcess } from './simulated-process.js';
import type { Step, Task } from './task-plan.js';

class BodyError extends Error {}

/** Runs tasks of one process. */
export class Caller {
  constructor(
    private readonly process: SimulatedProcess,
    private readonly claims: ClaimCheck,
  ) {}

  /** Makes the steps one after the other; a step's expected errors are part of it. */
  async run(task: Task): Promise<void> {
    for (const step of task) {
      await this.process.sleep(step.idle);
      if (this.process.isClosing || this.process.isDraining) return;
      try {
        await this.#runStep(step);
      } catch (error) {
        this.#judgeError(error, step);
      }
    }
  }

  /** Acquires for a moment, as everyone must be able to once all faults have ended. */
  async acquireFinally(resource: string, ttl: number, wait: number): Promise<boolean> {
    const { process } = this;
    try {
      const retryDelay = { min: 30, max: Math.max(100, ttl / 10) };
      const lock = await process.redlock.acquire(resource, ttl, { wait, retryDelay });
      const watch = this.#watch(lock, Infinity);
      watch.look();
      await process.sleep(1);
      watch.look();
      await lock.release();
      return true;
    } catch (error) {
      process.report.trace(`gets nothing at the end: ${nameOf(error)}`);
      return false;
    }
  }

  #runStep(step: Step): Promise<void> {
    switch (step.kind) {
      case 'acquire':
      case 'try':
      case 'extend':
        return this.#holdByHand(step);
      case 'using':
      case 'extendInBody':
        return this.#use(step);
      case 'inspect':
        return this.#inspect(step);
    }
  }

  async #holdByHand(step: Step): Promise<void> {
    const { process } = this;
    const lock = await this.#acquire(step);
    if (lock === null) return;
    const watch = this.#watch(lock, heldMaxOf(step));
    if (step.isFollowed) watch.follow();
    if (step.kind === 'extend') await this.#extendWhileHolding(lock, watch, step);
    else await process.sleep(step.hold);
    if (step.ending === 'late') await this.#outlive(lock, step);
    if (step.ending === 'never') process.abandoned.add(lock.ownerId);
    else await this.#release(lock, watch, step);
  }

  #acquire(step: Step): Promise<Lock | null> {
    const { process } = this;
    const { resources, ttl, wait, hasWatchdog: watchdog, maxHold } = step;
    const signal = this.#abortSignal(step);
    const limit = this.#attemptMax(step);
    const options = { watchdog, maxHold, ...(signal === null ? {} : { signal }) };
    process.report.trace(`asks for ${resources.join('+')} for ${ttl} ms (${step.kind})`);
    if (step.kind === 'try') {
      const call = process.redlock.tryAcquire(resources, ttl, options);
      return process.track('tryAcquire', limit, call);
    }
    const call = process.redlock.acquire(resources, ttl, { ...options, wait });
    return process.track('acquire', wait + limit, call);
  }

  async #extendWhileHolding(lock: Lock, watch: ClaimWatch, step: Step): Promise<void> {
    const { process } = this;
    const { extendTtl, extendEvery, hold } = step;
    let rounds = 0;
    for (let spent = 0; spent < hold && rounds < EXTENSIONS_MAX; spent += extendEvery + 1) {
      rounds += 1;
      // The first comes at once in some: it meets the late answers of the acquisition.
      await process.sleep(rounds === 1 ? extendEvery / 3 : extendEvery);
      if (process.isEnded) return;
      watch.look();
      try {
        const limit = this.#timeout(extendTtl) + SLACK;
        await process.track('extend', limit, lock.extend(extendTtl));
        watch.look();
      } catch (error) {
        if (error instanceof LockLostError) return;
        if (!(error instanceof NoQuorumError)) throw error;
      }
    }
  }

  async #outlive(lock: Lock, step: Step): Promise<void> {
    const { machine } = this.process;
    for (let rounds = 0; rounds < 4; rounds += 1) {
      const remaining = machine.probe(() => lock.remaining);
      if (remaining === 0) break;
      await this.process.sleep(Math.min(remaining, step.ttl) + machine.random.next() * 20);
    }
  }

  async #release(lock: Lock, watch: ClaimWatch, step: Step): Promise<void> {
    const { process } = this;
    const limit = this.#timeout(Math.max(step.ttl, step.extendTtl)) + SLACK;
    watch.look();
    const released = process.track('release', limit, lock.release());
    watch.look();
    if (step.ending === 'twice') await process.track('release', limit, lock.release());
    await released;
    watch.look();
  }

  async #use(step: Step): Promise<void> {
    const { process } = this;
    const { resources, ttl, wait, hasWatchdog: watchdog, maxHold } = step;
    const signal = this.#abortSignal(step);
    const holdAtLeast = Math.min(step.holdAtLeast, maxHold);
    const options = { ttl, wait, watchdog, maxHold, holdAtLeast };
    const isExtended = step.kind === 'extendInBody';
    const end = { wasHeld: false };
    const body = async (lock: Lock): Promise<void> => {
      const watch = this.#watch(lock, heldMaxOf(step));
      if (step.isFollowed) watch.follow();
      if (step.abortAfter !== null) this.#checkSignal(lock);
      if (holdAtLeast > 0) process.abandoned.add(lock.ownerId);
      process.leases.bodies.add(lock.ownerId);
      if (isExtended) await this.#extendWhileHolding(lock, watch, step);
      else await process.sleep(step.hold);
      process.leases.bodies.delete(lock.ownerId);
      if (step.ending === 'throw') throw new BodyError();
      end.wasHeld = watch.look();
    };
    process.report.trace(`uses ${resources.join('+')} for ${ttl} ms`);
    const round = step.extendEvery + this.#timeout(step.extendTtl) + SLACK;
    const held = isExtended ? EXTENSIONS_MAX * round : step.hold;
    const limit = wait + this.#attemptMax(step) + held + 2 + this.#timeout(ttl) + SLACK;
    const withSignal = signal === null ? options : { ...options, signal };
    await process.track('using', limit, process.redlock.using(resources, withSignal, body));
    if (end.wasHeld) return;
    const message = `using(${resources.join('+')}) succeeded although its lock had been lost`;
    process.report.findings.add('using', process.machine.trueNow, message);
  }

  async #inspect(step: Step): Promise<void> {
    const { process } = this;
    const call = process.redlock.inspect(step.resources[0] ?? 'a');
    await process.track('inspect', 500 + SLACK, call);
  }

  #watch(lock: Lock, heldMax: number): ClaimWatch {
    const { machine, leases, report } = this.process;
    const isEnded = (): boolean => this.process.isEnded;
    const { claims } = this;
    return new ClaimWatch(lock, machine, isEnded, leases, claims, report.findings, heldMax);
  }

  // The signal says the same as the lock, also before any event has come.
  #checkSignal(lock: Lock): void {
    const { machine, report } = this.process;
    lock.signal.addEventListener('abort', () => {
      if (!machine.probe(() => lock.isValid)) return;
      report.findings.add('signal', machine.trueNow, `${lock.ownerId} aborted while it was held`);
    });
    const isHeld = machine.probe(() => lock.isValid);
    if (machine.probe(() => lock.signal.aborted) !== isHeld) return;
    report.findings.add('signal', machine.trueNow, `${lock.ownerId}'s signal contradicts it`);
  }

  #abortSignal({ abortAfter }: Step): AbortSignal | null {
    return abortAfter === null ? null : this.process.signalUntil(abortAfter);
  }

  // The attempts that a split vote asks for, a pause of at most one such time before each but the
  // first, and the repetitions that a refused token allows the last of them.
  #attemptMax(step: Step): number {
    return 10 * this.#timeout(step.ttl) + SLACK;
  }

  #timeout(ttl: number): number {
    return nodeTimeoutOf(this.process.redlock.options, ttl) + 2;
  }

  #judgeError(error: unknown, step: Step): void {
    const { findings, trace } = this.process.report;
    const isExpected =
      error instanceof RedlockError || error instanceof BodyError || error instanceof GaveUp;
    if (!isExpected) {
      const at = this.process.machine.trueNow;
      findings.add('odd error', at, `${step.kind} failed with ${nameOf(error)}`);
    }
    trace(`${step.kind} ends: ${nameOf(error)}`);
  }
}

function heldMaxOf({ maxHold, ttl, extendTtl }: Step): number {
  return maxHold + Math.max(ttl, extendTtl);
}

/** For timers, and for steps between them, in ms. */
const SLACK = 12;

const EXTENSIONS_MAX = 12;
