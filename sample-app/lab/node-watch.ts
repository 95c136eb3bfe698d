import { setTimeout as sleep } from 'node:timers/promises';

import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { RedlockService, type NodeStatus, type ResourceState } from 'nestjs-locked';

import { now } from './clock.js';
import { NEWS_EVERY } from './replica-messages.js';
import { Feed } from './feed.js';
import { LAB_INFRASTRUCTURE, type LabInfrastructure } from './lab-infrastructure.js';
import { JOB } from './long-job.js';
import { sum, TrafficMeter, type NodeTraffic } from './node-traffic.js';
import { SALE } from './sale-counter.js';
import type { Instant, NodeState, WatchedResource } from './messages.js';

/** Inspects the nodes while a page is open. */
@Injectable()
export class NodeWatch implements OnModuleInit, OnModuleDestroy {
  /** The resource tried by hand: watched in addition to the sale and the job. */
  tried = 'demo';
  readonly #meter = new TrafficMeter();
  readonly #traffic = new Map<string, NodeTraffic>();
  #rates: ReadonlyMap<string, NodeTraffic> = new Map();
  #timers: NodeJS.Timeout[] = [];
  #isLooking = false;

  constructor(
    @Inject(LAB_INFRASTRUCTURE) private readonly infrastructure: LabInfrastructure,
    private readonly redlock: RedlockService,
    private readonly feed: Feed,
  ) {}

  onModuleInit(): void {
    this.#timers = [
      setInterval(() => void this.#look(), LOOK_EVERY),
      setInterval(() => this.#takeRates(), SECOND),
    ];
  }

  onModuleDestroy(): void {
    this.#timers.forEach(clearInterval);
    this.#meter.stop();
  }

  /** Adds what another process of ours heard from the nodes. */
  count(traffic: readonly NodeTraffic[]): void {
    for (const one of traffic)
      this.#traffic.set(one.address, sum(this.#traffic.get(one.address), one));
  }

  /** How the nodes are now; asks none of them. */
  async states(): Promise<NodeState[]> {
    const { nodes } = await this.redlock.status();
    return nodes.map((status, index) => this.#stateOf(status, index));
  }

  // One inspection at a time: with frozen nodes each takes as long as their timeout.
  async #look(): Promise<void> {
    if (!this.feed.hasListeners || this.#isLooking) return;
    this.#isLooking = true;
    try {
      const at = now();
      const names = [...new Set([SALE, JOB, this.tried])];
      const inspected = await Promise.all(names.map((name) => this.redlock.inspect(name)));
      // Until the replicas have reported whose locks these are.
      await sleep(2 * NEWS_EVERY);
      const resources = inspected.map((state) => this.#watched(state, at));
      this.feed.update({ resources, nodes: await this.states() });
    } finally {
      this.#isLooking = false;
    }
  }

  #watched({ resource, nodes }: ResourceState, at: Instant): WatchedResource {
    const answers = nodes.map(({ state, ownerId, remaining }) => {
      return { state, ownerId, remaining, owner: this.feed.processOf(ownerId) };
    });
    return { resource, at, nodes: answers };
  }

  #takeRates(): void {
    this.count(this.#meter.drain());
    this.#rates = new Map(this.#traffic);
    this.#traffic.clear();
  }

  #stateOf(status: NodeStatus, index: number): NodeState {
    const own = this.infrastructure.ownNodes[index];
    const rate = this.#rates.get(addressOf(status.name));
    return {
      name: status.name,
      status,
      at: now(),
      votesPerSecond: rate?.votes ?? 0,
      latency: rate === undefined ? null : rate.latencySum / rate.answers,
      process: own?.state ?? null,
      delay: own?.delay ?? 0,
    };
  }
}

function addressOf(name: string): string {
  return URL.canParse(name) ? new URL(name).host : name;
}

const LOOK_EVERY = 250;
const SECOND = 1_000;
