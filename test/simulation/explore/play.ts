// One play of a scenario: the universe of the simulation, in which the usual happens but at the
// points of the play's plan; and the judges of what a random universe can not be judged by, for
// too much goes wrong there: somebody gets the lock, and soon.
import { Universe } from '../universe.js';
import { chosenParts } from './chosen-parts.js';
import { Choices } from './choices.js';
import { CHOICES_FROM } from './scenarios.js';
import type { Finding } from '../checks/findings.js';
import type { SimulatedServer } from '../simulated-server.js';
import type { Client } from '../universe.js';
import type { Fate, PlayPlan } from './choices.js';
import type { ActFate, ServerFault } from './fates.js';
import type { Scenario } from './scenarios.js';

/** What became of a play. */
export interface PlayOutcome {
  readonly findings: readonly Finding[];
  /** How many fates there were at each of its points. */
  readonly points: readonly number[];
  /** The longest time for which a lock was free, wanted, and nobody's, in ms. */
  readonly idleLongest: number;
  readonly trace: readonly string[];
}

/** Runs once. */
export class Play {
  readonly #universe: Universe;
  readonly #choices: Choices;
  #acts: readonly ActFate[];
  #excusedUntil = 0;
  #idleSince: number | null = null;
  #idleLongest = 0;

  constructor(
    private readonly scenario: Scenario,
    plan: PlayPlan,
    isTraced: boolean,
  ) {
    const { acts, fates } = scenario;
    this.#acts = acts;
    const choices = new Choices(plan, (about, fate) => this.#onFate(about, fate));
    this.#choices = choices;
    const parts = chosenParts({
      choices,
      fates,
      beforeEvent: () => this.#judge(),
      afterAct: () => this.#chooseAct(),
      befall: (server, fault) => this.#befall(server, fault),
    });
    this.#universe = new Universe(scenario.plan, isTraced, parts);
  }

  /** Runs it to its end. Never rejects. */
  async run(): Promise<PlayOutcome> {
    const { scheduler, clients } = this.#universe;
    // Each client has a node nearby. No two ways are of one length.
    clients.forEach(({ links }, client) =>
      links.forEach((link, node) => {
        const isNear = node === (client + 1) % links.length;
        link.extraDelay = node * 0.1 + client * 0.03 + (isNear ? 0 : this.scenario.detour);
      }),
    );
    scheduler.at(CHOICES_FROM, () => (this.#choices.isLive = true));
    scheduler.at(this.scenario.plan.healAt, () => this.#endAll());
    const { findings, trace } = await this.#universe.run();
    const { points } = this.#choices;
    return { findings, points, idleLongest: this.#idleLongest, trace };
  }

  #onFate(about: string, { name, excuse }: Fate): void {
    const { scheduler } = this.#universe;
    this.#universe.note('CHOICE', `${about} ${name}`);
    this.#excusedUntil = Math.max(this.#excusedUntil, scheduler.now + excuse);
  }

  #befall(name: string, fault: ServerFault): void {
    const { injector, scheduler, servers } = this.#universe;
    const node = servers.findIndex((server) => server.name === name);
    injector.begin({ ...fault, at: scheduler.now, node });
  }

  #chooseAct(): void {
    const chosen = this.#choices.ask('somebody', this.#acts);
    if (chosen === null) return;
    this.#acts = this.#acts.filter((act) => act !== chosen);
    this.#universe.scheduler.after(0, () => this.#universe.injector.begin(chosen.fault));
  }

  #judge(): void {
    if (!this.#choices.isLive) return;
    const { clients } = this.#universe;
    if (clients.every(({ process }) => process.isEnded || process.tasks === 0)) this.#endAll();
    else this.#judgeIdle();
  }

  #judgeIdle(): void {
    const { scheduler, findings } = this.#universe;
    const { now } = scheduler;
    if (now <= this.#excusedUntil || !this.#isFree() || !this.#isWanted()) {
      this.#idleSince = null;
      return;
    }
    this.#idleSince ??= now;
    const idle = now - this.#idleSince;
    const wasShort = this.#idleLongest <= IDLE_MAX;
    this.#idleLongest = Math.max(this.#idleLongest, idle);
    if (idle <= IDLE_MAX || !wasShort) return;
    findings.add('idle', now, `free, wanted, and nobody's for ${idle.toFixed(0)} ms`);
  }

  /** Whether the nodes of a quorum have no key, and clocks by which one token suits them all. */
  #isFree(): boolean {
    const { scheduler, servers, world } = this.#universe;
    const quorum = Math.floor(servers.length / 2) + 1;
    const times = servers
      .filter((server) => this.#isVacant(server))
      .map(({ clock }) => clock.read(scheduler.now))
      .sort((a, b) => a - b);
    return times.some(
      (time, index) => (times[index + quorum - 1] ?? Infinity) - time < world.clockSkewMax * 0.9,
    );
  }

  #isVacant({ isUp, refusal, clock, model }: SimulatedServer): boolean {
    if (!isUp || refusal !== null) return false;
    const now = clock.read(this.#universe.scheduler.now);
    return this.scenario.plan.resources.every(
      (resource) => (model.data.get(resource)?.expiresAt ?? -Infinity) < now,
    );
  }

  #isWanted(): boolean {
    const { clients, scheduler } = this.#universe;
    return clients.some(
      ({ process, machine }: Client) =>
        !process.isEnded &&
        machine.busyUntil <= scheduler.now &&
        machine.probe(() => process.redlock.status().waiting) > 0,
    );
  }

  /** From now on nothing is chosen any more. */
  #endAll(): void {
    if (!this.#choices.isLive) return;
    this.#choices.isLive = false;
    this.#universe.scheduler.halt();
    const { clients, findings, scheduler } = this.#universe;
    for (const { process } of clients) {
      if (process.isEnded || process.longestRefusal < STARVED_AFTER) continue;
      const waited = process.longestRefusal.toFixed(0);
      findings.add('starved', scheduler.now, `${process.report.name} got nothing in ${waited} ms`);
    }
    const isServed = clients.some(({ process }) => process.acquisitions > 0);
    const hasStayed = clients.some(({ process }) => !process.isEnded && !process.isClosing);
    if (hasStayed && !isServed) findings.add('nobody', scheduler.now, 'nobody has got the lock');
  }
}

/** In ms; it takes some 70 where nothing is wrong. */
const IDLE_MAX = 260;

/** In ms: who may wait for so long gets the lock. */
const STARVED_AFTER = 7_900;
