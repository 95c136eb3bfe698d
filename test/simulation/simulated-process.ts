// One process of the application: the unchanged core, its adapters, and what it has under way.
import { resolveOptions } from '../../lib/core/options.js';
import { silentObserver } from '../../lib/core/observer.js';
import { Redlock } from '../../lib/core/redlock.js';
import { LeaseCheck } from './checks/lease-check.js';
import { SimulatedEnvironment } from './simulated-machine.js';
import { SimulatedNode } from './simulated-node.js';
import type { Lock } from '../../lib/core/lock.js';
import type { RedlockOptions } from '../../lib/core/options.js';
import type { RedlockObserver } from '../../lib/core/observer.js';
import type { Findings } from './checks/findings.js';
import type { Link } from './link.js';
import type { SimulatedMachine } from './simulated-machine.js';
import type { AdapterOptions } from './simulated-node.js';

/** What a process is started with. */
export interface ProcessOptions {
  readonly redlock: RedlockOptions & { readonly driftFactor: number };
  readonly adapter: Omit<AdapterOptions, 'world'>;
}

/** Its name in traces, and where its checkers report to. */
export interface ProcessReport {
  readonly name: string;
  readonly findings: Findings;
  readonly trace: (message: string) => void;
}

/** A process, from its start to its end, which may be a crash. */
export class SimulatedProcess {
  readonly environment: SimulatedEnvironment;
  readonly redlock: Redlock;
  readonly leases: LeaseCheck;
  /** Owners whose keys may stay until their ttl: nobody releases them. */
  readonly abandoned = new Set<string>();
  isClosing = false;
  /** Its callers begin no further step. */
  isDraining = false;
  acquisitions = 0;
  /** How many of them the nodes were not asked for. */
  handOvers = 0;
  /** How many of its callers are not done. */
  tasks = 0;
  /** The longest that somebody waited who was refused then, in ms. */
  longestRefusal = 0;
  /** Locks that it holds or was told no end of yet. */
  readonly untold = new Set<Lock>();
  readonly #nodes: readonly SimulatedNode[];
  readonly #underWay = new Map<number, string>();
  readonly #controllers = new Set<AbortController>();
  #calls = 0;

  constructor(
    readonly machine: SimulatedMachine,
    links: readonly Link[],
    { redlock, adapter }: ProcessOptions,
    readonly report: ProcessReport,
  ) {
    const { name, findings } = report;
    this.environment = new SimulatedEnvironment(machine, name);
    this.leases = new LeaseCheck(machine, links.length, redlock.driftFactor, findings);
    const { world } = resolveOptions(redlock, links.length);
    this.#nodes = links.map(
      (link, index) =>
        new SimulatedNode(
          `node-${index}`,
          index,
          this.environment,
          link,
          { ...adapter, world },
          this.leases,
        ),
    );
    const ports = { environment: this.environment, observer: this.#observer() };
    this.redlock = new Redlock(this.#nodes, redlock, ports);
  }

  get isEnded(): boolean {
    return this.environment.isEnded;
  }

  /** What the library has been asked and has not answered yet. */
  get underWay(): readonly string[] {
    return [...this.#underWay.values()];
  }

  /** Whether a node owes it an answer. */
  get isOwed(): boolean {
    return this.#nodes.some((node) => node.isOwed);
  }

  /** Ends as a crash does: nothing of it runs any more. */
  end(): void {
    this.environment.isEnded = true;
    for (const node of this.#nodes) node.end();
  }

  /**
   * Follows a call to its end, which must come within `limit` ms of the process's own time, or
   * twice that after a pause: then the nodes of a round have their time once more.
   */
  track<Value>(what: string, limit: number, call: Promise<Value>): Promise<Value> {
    const { machine } = this;
    this.#calls += 1;
    const number = this.#calls;
    this.#underWay.set(number, what);
    const startedAt = machine.monotonic.read(machine.trueNow);
    const pausedBefore = machine.paused;
    const onSettled = (): void => {
      this.#underWay.delete(number);
      const paused = (machine.paused - pausedBefore) * machine.monotonic.rate;
      const took = machine.monotonic.read(machine.trueNow) - startedAt - paused;
      const allowed = paused > 0 ? 2 * limit : limit;
      if (took <= allowed) return;
      const message = `${what} took ${took.toFixed(1)} ms, not ${allowed.toFixed(1)}`;
      this.report.findings.add('deadline', machine.trueNow, message);
    };
    call.then(onSettled, onSettled);
    return call;
  }

  /** The signal of one caller, who gives up after `delay` ms, or when all do. */
  signalUntil(delay: number): AbortSignal {
    const controller = new AbortController();
    this.#controllers.add(controller);
    this.environment.startTimer(delay, () => {
      controller.abort(new GaveUp());
    });
    return controller.signal;
  }

  /** All callers that can give up do. */
  giveUp(): void {
    for (const controller of this.#controllers) controller.abort(new GaveUp());
  }

  /** Resolves after `delay` ms, if the process lives that long. */
  sleep(delay: number): Promise<void> {
    return new Promise((resolve) => {
      this.environment.startTimer(delay, resolve);
    });
  }

  #observer(): RedlockObserver {
    const { trace } = this.report;
    return {
      ...silentObserver,
      acquired: (lock, _, attempts) => {
        this.acquisitions += 1;
        this.untold.add(lock);
        if (attempts === 0) this.handOvers += 1;
        trace(`holds ${lock.resources.join('+')} as ${lock.ownerId}, token ${lock.fencingToken}`);
      },
      refused: (resources, error, waited) => {
        trace(`does not get ${resources.join('+')}: ${nameOf(error)}`);
        this.longestRefusal = Math.max(this.longestRefusal, waited);
      },
      extended: (lock) => trace(`has extended ${lock.ownerId}`),
      released: (lock) => {
        trace(`has released ${lock.ownerId}`);
        this.#checkToldOnce(lock);
      },
      lost: (lock, reason) => {
        trace(`has lost ${lock.ownerId}: ${reason}`);
        this.#checkToldOnce(lock);
        this.#checkLossInTime(lock);
      },
    };
  }

  #checkToldOnce(lock: Lock): void {
    if (this.untold.delete(lock)) return;
    const message = `the end of ${lock.ownerId} was told twice, or before its acquisition`;
    this.report.findings.add('told twice', this.machine.trueNow, message);
  }

  // The signal aborts at or before the end of the validity, as far as timers are exact.
  #checkLossInTime(lock: Lock): void {
    const overdue = this.leases.lossOverdueFor(lock.ownerId);
    if (overdue <= LOSS_LATE_MAX) return;
    const message = `the loss of ${lock.ownerId} was told ${overdue.toFixed(1)} ms late`;
    this.report.findings.add('loss told late', this.machine.trueNow, message);
  }
}

/** The reason of a caller who gives up. */
export class GaveUp extends Error {}

/** An error's name, as a trace shows it. */
export function nameOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message.slice(0, 90)}` : String(error);
}

/** Resolution of timers, and the width of the watchdog's slots. */
const LOSS_LATE_MAX = 8;
