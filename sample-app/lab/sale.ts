import { setTimeout as sleep } from 'node:timers/promises';

import { ConflictException, Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';

import { FencedStore } from '../store/fenced-store.js';
import { now } from './clock.js';
import { Feed } from './feed.js';
import { LAB_INFRASTRUCTURE, type LabInfrastructure } from './lab-infrastructure.js';
import { logLine } from './lock-events.js';
import { NodeWatch } from './node-watch.js';
import { ReplicaProcess } from './replica-process.js';
import { SALE } from './sale-counter.js';
import { isSelling } from './phases.js';
import { saleDefaults } from './sale-defaults.js';
import { COUNTERS, saleLimits } from './sale-limits.js';
import type { SaleSettings, SaleState, VisitOutcome } from './messages.js';
import type { ReplicaNews } from './replica-messages.js';

/** Sells a stock to many buyers, by several processes at once. */
@Injectable()
export class Sale implements OnModuleDestroy {
  readonly #replicas: ReplicaProcess[] = [];
  #state = IDLE;
  #isNextFatal = false;

  constructor(
    @Inject(LAB_INFRASTRUCTURE) private readonly infrastructure: LabInfrastructure,
    private readonly store: FencedStore,
    private readonly feed: Feed,
    private readonly nodes: NodeWatch,
  ) {}

  get state(): SaleState {
    return this.#state;
  }

  /** Why there can be no sale over several processes; empty if there can. */
  get noSaleReason(): string {
    const { nodes, storeUrl } = this.infrastructure;
    if (nodes !== undefined && storeUrl !== undefined) return '';
    return 'Locks and stock are in the memory of one process here. Install redis-server, and start again.';
  }

  /**
   * Starts the processes and the sale; resolves when it has begun.
   * @throws ConflictException while one is running, and if there cannot be one
   */
  async start(settings: SaleSettings): Promise<SaleState> {
    if (this.noSaleReason !== '') throw new ConflictException(this.noSaleReason);
    if (isSelling(this.#state)) throw new ConflictException('A sale is running: stop it first.');
    this.#isNextFatal = false;
    this.#become({ ...IDLE, settings, phase: 'starting' });
    try {
      await this.#hire(settings.replicas);
    } catch (error) {
      this.#become({ phase: 'failed', message: String(error) });
      return this.#state;
    }
    if (this.#state.phase === 'stopping') {
      this.#become({ phase: 'idle' });
      return this.#state;
    }
    this.feed.log(logLine('action', 'app', describe(settings)));
    this.#become({ phase: 'running', startedAt: now() });
    void this.#run();
    return this.#state;
  }

  /**
   * Lets the replica that serves the next buyer be killed in the middle of its turn.
   * @throws ConflictException while nothing is sold
   */
  killReplica(): SaleState {
    if (!this.#isOpen()) throw new ConflictException('No sale is running: start one first.');
    this.#isNextFatal = true;
    return this.#state;
  }

  /** Lets no more buyers in, or none at all if the replicas are still starting. */
  stop(): SaleState {
    if (this.#isOpen() || this.#state.phase === 'starting') this.#become({ phase: 'stopping' });
    return this.#state;
  }

  async onModuleDestroy(): Promise<void> {
    this.stop();
    await Promise.all(this.#replicas.map((replica) => replica.end()));
  }

  /** Brings the number of processes to `count`, and keeps those that are there already. */
  async #hire(count: number): Promise<void> {
    const { nodes = [], storeUrl = '' } = this.infrastructure;
    for (let index = 0; index < saleLimits.replicas.max; index += 1) {
      const replica = this.#replicas[index];
      if (index >= count) await replica?.end();
      else if (replica === undefined || replica.hasEnded) {
        const number = index + 1;
        const onNews = (news: ReplicaNews): void => this.#onNews(news);
        this.#replicas[index] = new ReplicaProcess({ nodes, storeUrl, number, onNews });
      }
    }
    this.#replicas.splice(count);
    await Promise.all(this.#replicas.map((replica) => replica.whenReady()));
  }

  // Not awaited: what goes wrong in it becomes the state.
  async #run(): Promise<void> {
    try {
      await this.#sellOnce();
      while (this.#state.settings.isEndless && this.#isOpen()) {
        await sleep(RESTOCK);
        if (this.#isOpen()) await this.#hire(this.#state.settings.replicas);
        if (this.#isOpen()) await this.#sellOnce();
      }
    } catch (error) {
      this.#become({ message: String(error) });
    }
    const phase = this.#isOpen() ? 'done' : 'stopped';
    this.#become({ phase: this.#state.message === '' ? phase : 'failed' });
    const { sold, oversold, refused } = this.#state;
    this.feed.log(
      logLine('action', 'app', `Sale over: ${sold} sold, ${refused} refused, ${oversold} oversold`),
    );
  }

  #isOpen(): boolean {
    return this.#state.phase === 'running';
  }

  async #sellOnce(): Promise<void> {
    const { stock, buyers } = this.#state.settings;
    // Nobody sells now, so this overwrites nobody's sale.
    await this.store.overwrite(SALE, stock);
    const { rounds, offered } = this.#state;
    this.#become({ rounds: rounds + 1, offered: offered + stock, waiting: buyers });
    const round: Round = { buyersLeft: buyers, sold: 0 };
    // Again if a replica ended, and its buyers came back after the others had closed.
    while (round.buyersLeft > 0 && this.#isOpen()) {
      const replicas = this.#replicas.filter(({ hasEnded }) => !hasEnded);
      if (replicas.length === 0) this.#fail('All replicas have ended');
      await Promise.all(replicas.map((replica) => this.#open(replica, round)));
    }
    const left = (await this.store.peek(SALE)) ?? 0;
    const { stillOnSale } = this.#state;
    this.#become({
      stillOnSale: stillOnSale + Math.max(0, left - Math.max(0, stock - round.sold)),
    });
  }

  /** Sells at all counters of a replica until no buyer is left or the replica has ended. */
  async #open(replica: ReplicaProcess, round: Round): Promise<void> {
    const counters = Array.from({ length: COUNTERS }, (_, counter) =>
      this.#tend(replica, counter, round),
    );
    await Promise.all(counters);
    if (!replica.hasEnded) return;
    const text = 'Has ended: what it holds ends with the ttl, then the others go on';
    this.feed.log(logLine('action', replica.name, text));
  }

  /** Lets one counter serve one buyer after another until none is left. */
  async #tend(replica: ReplicaProcess, counter: number, round: Round): Promise<void> {
    const { section, isLocked } = this.#state.settings;
    while (round.buyersLeft > 0 && this.#isOpen()) {
      round.buyersLeft -= 1;
      const isFatal = this.#isNextFatal;
      this.#isNextFatal = false;
      const outcome = await replica.sell({ counter, section, isLocked, isFatal });
      if (outcome === 'failed' && !replica.hasEnded) this.#fail(`${replica.name} failed`);
      else this.#count(outcome, round);
      if (replica.hasEnded) return;
    }
  }

  #fail(message: string): void {
    this.#become({ phase: 'stopping', message });
  }

  #count(outcome: VisitOutcome, round: Round): void {
    const { sold, refused, oversold, comeAgain, waiting, settings } = this.#state;
    switch (outcome) {
      case 'sold':
        round.sold += 1;
        this.#become({
          waiting: waiting - 1,
          sold: sold + 1,
          oversold: oversold + (round.sold > settings.stock ? 1 : 0),
        });
        return;
      case 'sold out':
        this.#become({ waiting: waiting - 1, refused: refused + 1 });
        return;
      default:
        // Like a client that gets 423 or 503, or whose connection breaks, the buyer retries.
        round.buyersLeft += 1;
        this.#become({ comeAgain: comeAgain + 1 });
    }
  }

  #onNews({ visits, log, traffic }: ReplicaNews): void {
    visits.forEach((visit) => this.feed.visit(visit));
    log.forEach((line) => this.feed.log(line));
    this.nodes.count(traffic);
  }

  #become(change: Partial<SaleState>): void {
    this.#state = { ...this.#state, ...change };
    this.feed.update({ sale: this.#state });
  }
}

interface Round {
  buyersLeft: number;
  sold: number;
}

/** From the end of one round to the next, in ms. */
const RESTOCK = 1_000;

const IDLE: SaleState = {
  phase: 'idle',
  settings: saleDefaults,
  startedAt: 0,
  rounds: 0,
  offered: 0,
  sold: 0,
  refused: 0,
  oversold: 0,
  stillOnSale: 0,
  comeAgain: 0,
  waiting: 0,
  message: '',
};

function describe({ stock, buyers, replicas, section, isLocked }: SaleSettings): string {
  const how = isLocked ? 'with @Locked' : 'without a lock';
  return `Sale ${how}: ${stock} pieces, ${buyers} buyers, ${replicas} replicas, ${section} ms each`;
}
