// Builds a universe from its plan, runs it to its end, and asks the checkers.
import { ClaimCheck } from './checks/claim-check.js';
import { Findings } from './checks/findings.js';
import { checkLeftovers } from './checks/leftover-check.js';
import { FaultInjector } from './fault-injector.js';
import { Link } from './link.js';
import { Caller } from './programs.js';
import { element, Random } from './random.js';
import { Scheduler } from './scheduler.js';
import { certificateKey } from './script-model.js';
import { SimulatedClock } from './simulated-clock.js';
import { SimulatedMachine } from './simulated-machine.js';
import { nameOf, SimulatedProcess } from './simulated-process.js';
import { SimulatedServer } from './simulated-server.js';
import { resolveOptions } from '../../lib/core/options.js';
import type { World } from '../../lib/core/lock-node.js';
import type { Finding } from './checks/findings.js';
import type { ClientPlan, Plan } from './plan.js';
import type { ProcessOptions } from './simulated-process.js';

/** What became of a universe. */
export interface Outcome {
  readonly seed: number;
  readonly findings: readonly Finding[];
  readonly events: number;
  readonly acquisitions: number;
  readonly handOvers: number;
  readonly faults: ReadonlyMap<string, number>;
  readonly trace: readonly string[];
}

/** What a universe is made of, but for what its plan says. */
export interface Parts {
  readonly scheduler: Scheduler;
  newRandom(seed: number, stream: number): Random;
  newServer(...given: ConstructorParameters<typeof SimulatedServer>): SimulatedServer;
  newMachine(...given: ConstructorParameters<typeof SimulatedMachine>): SimulatedMachine;
  newLink(...given: ConstructorParameters<typeof Link>): Link;
}

/** A client: its machine, its ways to the servers, and the process that runs there now. */
export interface Client {
  readonly plan: ClientPlan;
  readonly machine: SimulatedMachine;
  readonly links: readonly Link[];
  process: SimulatedProcess;
}

/** Everything there is, for one seed. */
export class Universe {
  readonly scheduler: Scheduler;
  readonly findings = new Findings();
  readonly claims = new ClaimCheck(this.findings);
  readonly servers: readonly SimulatedServer[];
  readonly clients: readonly Client[];
  readonly injector = new FaultInjector(this);
  readonly #processes: SimulatedProcess[] = [];
  readonly #trace: string[] = [];
  readonly world: World;

  constructor(
    readonly plan: Plan,
    private readonly isTraced: boolean,
    private readonly parts = drawnParts(),
  ) {
    this.scheduler = parts.scheduler;
    this.world = resolveOptions(this.#processOptions().redlock, plan.nodes.length).world;
    this.servers = plan.nodes.map((_, index) => this.#newServer(index));
    this.clients = plan.clients.map((_, index) => this.#newClient(index));
  }

  /** Runs it and says what was found. Never rejects. */
  async run(): Promise<Outcome> {
    const { injector } = this;
    const onRejection = (reason: unknown): void => {
      this.findings.add('unhandled rejection', this.scheduler.now, nameOf(reason));
    };
    process.on('unhandledRejection', onRejection);
    try {
      injector.schedule(this.plan.faults);
      for (const client of this.clients) this.#startTasks(client);
      await this.scheduler.run(this.plan.healAt);
      injector.heal();
      await this.#runToEnd();
      // Rejections are told once the queue of microtasks is empty.
      await new Promise((resolve) => setImmediate(resolve));
    } catch (error) {
      const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
      this.findings.add('thrown', this.scheduler.now, message);
    } finally {
      process.off('unhandledRejection', onRejection);
    }
    this.claims.checkOverlap(this.#overlapMax());
    if (this.plan.fencing) this.claims.checkTokens();
    return this.#outcome(injector.counts);
  }

  /** A client's process crashed, or was started anew. */
  startProcess(client: Client): void {
    client.process.end();
    client.process = this.#newProcess(client.machine, client.links);
    this.#startTasks(client);
  }

  note(who: string, message: string): void {
    if (!this.isTraced) return;
    this.#trace.push(`${this.scheduler.now.toFixed(3).padStart(12)}  ${who.padEnd(10)} ${message}`);
  }

  // When all faults have ended everyone acquires, all calls settle, and no key is left behind.
  async #runToEnd(): Promise<void> {
    const { plan, scheduler } = this;
    const bound =
      this.world.quarantine + 3 * plan.ttlMax + 2 * plan.healAt + plan.stallTimeout + 2_000;
    for (const { process } of this.clients) process.isDraining = true;
    await scheduler.run(scheduler.now + plan.stallTimeout + 300);
    const live = this.clients.filter(({ process }) => !process.isEnded && !process.isClosing);
    let served = 0;
    let settled = 0;
    for (const { process, machine } of live) {
      const caller = new Caller(process, this.claims);
      machine.run(() => {
        void caller.acquireFinally('a', plan.ttlMax, bound).then((isServed) => {
          settled += 1;
          served += Number(isServed);
        });
      });
    }
    const paused = Math.max(...live.map(({ machine }) => machine.busyUntil - scheduler.now), 0);
    const deadline = scheduler.now + paused + bound + 1_000;
    const isDone = (): boolean => settled === live.length && this.#isIdle();
    while (scheduler.now < deadline && !isDone()) await scheduler.run(scheduler.now + 100);
    const isQuiet = isDone();
    await scheduler.run(scheduler.now + 300);
    if (served < live.length && plan.guarantee !== 'wild') {
      this.findings.add(
        'liveness',
        scheduler.now,
        `${live.length - served} got nothing at the end`,
      );
    }
    this.#checkSettled();
    if (isQuiet) checkLeftovers(this, this.#processes);
  }

  #isIdle(): boolean {
    return this.clients.every((client) => {
      const { process, machine } = client;
      if (process.isEnded) return true;
      // What a paused client has begun to send comes when it goes on.
      if (process.tasks > 0 || machine.busyUntil > this.scheduler.now) return false;
      const { held, waiting } = machine.probe(() => process.redlock.status());
      const isAsking = held > 0 || waiting > 0 || process.isOwed || process.underWay.length > 0;
      // A release that could not be delivered waits for the connection.
      return !isAsking && this.#isConnected(client);
    });
  }

  #isConnected({ process, machine }: Client): boolean {
    const { nodes } = machine.probe(() => process.redlock.status());
    return process.isClosing || nodes.every(({ state }) => state === 'up');
  }

  #checkSettled(): void {
    for (const client of this.clients) {
      const { process, machine } = client;
      if (process.isEnded || machine.busyUntil > this.scheduler.now) continue;
      if (!this.#isConnected(client)) {
        this.findings.add('settling', this.scheduler.now, `${process.report.name} misses a node`);
      }
      for (const { ownerId } of process.isClosing ? [] : process.untold) {
        this.findings.add('settling', this.scheduler.now, `no end of ${ownerId} was told`);
      }
      for (const what of process.underWay) {
        this.findings.add('settling', this.scheduler.now, `${what} has not settled`);
      }
      if (process.tasks > 0) {
        this.findings.add('settling', this.scheduler.now, `${process.report.name} has not ended`);
      }
    }
  }

  #startTasks(client: Client): void {
    const caller = new Caller(client.process, this.claims);
    for (const task of client.plan.tasks) {
      const { process } = client;
      process.tasks += 1;
      client.machine.run(() => {
        void caller.run(task).then(() => {
          process.tasks -= 1;
        });
      });
    }
  }

  #overlapMax(): number {
    const { guarantee, ttlMax, driftFactor } = this.plan;
    if (guarantee === 'sound') return 0;
    return guarantee === 'wild' ? Infinity : Math.max(1_000, ttlMax * driftFactor) + 1;
  }

  #outcome(faults: ReadonlyMap<string, number>): Outcome {
    return {
      seed: this.plan.seed,
      findings: this.findings.all,
      events: this.scheduler.events,
      acquisitions: this.#processes.reduce((sum, process) => sum + process.acquisitions, 0),
      handOvers: this.#processes.reduce((sum, process) => sum + process.handOvers, 0),
      faults,
      trace: this.#trace,
    };
  }

  #newServer(index: number): SimulatedServer {
    const { clockOffset, rate, isPersistent } = element(this.plan.nodes, index);
    const shown = EPOCH + clockOffset;
    const name = `node-${index}`;
    const birth = (shown - this.world.quarantine - 1) * 1_000;
    const value = `${name}-0:${Math.floor(birth)}`;
    const data = this.plan.isNewborn
      ? []
      : [[certificateKey(this.world), { value, expiresAt: Infinity }] as const];
    const clock = new SimulatedClock(shown, rate);
    return this.parts.newServer(name, isPersistent, clock, this.scheduler, new Map(data));
  }

  #newClient(index: number): Client {
    const { parts, scheduler } = this;
    const { seed, delayMax } = this.plan;
    const plan = element(this.plan.clients, index);
    const random = parts.newRandom(seed, 200 + index);
    const monotonic = new SimulatedClock(random.between(0, 1e6), plan.rate);
    const wall = new SimulatedClock(EPOCH + plan.wallOffset, plan.rate);
    const machine = parts.newMachine(`client-${index}`, scheduler, random, monotonic, wall);
    const links = this.servers.map((server, node) => {
      const linkRandom = parts.newRandom(seed, 1_000 + index * 16 + node);
      const trace = (message: string): void => this.note(`${machine.name}-${node}`, message);
      const { distance } = element(this.plan.nodes, node);
      const told = this.isTraced ? trace : null;
      return parts.newLink(scheduler, linkRandom, server, delayMax, distance, told);
    });
    return { plan, machine, links, process: this.#newProcess(machine, links) };
  }

  #newProcess(machine: SimulatedMachine, links: readonly Link[]): SimulatedProcess {
    const name = `${machine.name}.${this.#processes.length}`;
    const trace = (message: string): void => this.note(name, message);
    const report = { name, findings: this.findings, trace };
    const process = new SimulatedProcess(machine, links, this.#processOptions(), report);
    this.#processes.push(process);
    return process;
  }

  #processOptions(): ProcessOptions {
    const { ttlMax, driftFactor, fencing, quarantine, stallTimeout, retryDelay } = this.plan;
    const shared = { ttlMax, driftFactor, fencing, quarantine, stallTimeout, retryDelay };
    const redlock = { ...shared, shutdownTimeout: SHUTDOWN_TIMEOUT };
    const nodeTimeout = Math.min(500, Math.max(50, ttlMax / 20));
    const adapter = {
      nodeTimeout,
      stallTimeout,
      reconnectDelay: 50,
      isRepeating: this.plan.isRepeating,
    };
    return { redlock, adapter };
  }
}

/** Parts that draw from the seed whatever might be one way or another. */
function drawnParts(): Parts {
  return {
    scheduler: new Scheduler(),
    newRandom: (seed, stream) => new Random(seed, stream),
    newServer: (...given) => new SimulatedServer(...given),
    newMachine: (...given) => new SimulatedMachine(...given),
    newLink: (...given) => new Link(...given),
  };
}

/** Wall-clock time at the beginning of every universe, in ms since 1970. */
const EPOCH = 1_700_000_000_000;

export const SHUTDOWN_TIMEOUT = 200;
