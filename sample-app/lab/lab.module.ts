import {
  Module,
  type DynamicModule,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
} from '@nestjs/common';
import { RedlockService } from 'nestjs-locked';

import { lockOptions } from '../lock-options.js';
import { FencedStore } from '../store/fenced-store.js';
import { Feed } from './feed.js';
import { HandLocks } from './hand-locks.js';
import { HandLocksController } from './hand-locks.controller.js';
import { IdleConnections } from './idle-connections.js';
import { LAB_INFRASTRUCTURE, type LabInfrastructure } from './lab-infrastructure.js';
import { LabController } from './lab.controller.js';
import { listenToLocks, listenToNodes } from './lock-events.js';
import { LongJob } from './long-job.js';
import { NodeWatch } from './node-watch.js';
import { Sale } from './sale.js';

/** The lock lab: what the page at `/` shows and does. */
@Module({})
export class LabModule implements OnApplicationBootstrap, OnApplicationShutdown {
  #endListening: (() => void)[] = [];

  constructor(
    private readonly feed: Feed,
    private readonly sale: Sale,
    private readonly job: LongJob,
    private readonly nodes: NodeWatch,
    private readonly redlock: RedlockService,
  ) {}

  static register(infrastructure: LabInfrastructure, store: FencedStore): DynamicModule {
    return {
      module: LabModule,
      controllers: [LabController, HandLocksController],
      providers: [
        { provide: LAB_INFRASTRUCTURE, useValue: infrastructure },
        { provide: FencedStore, useValue: store },
        Feed,
        HandLocks,
        IdleConnections,
        LongJob,
        NodeWatch,
        Sale,
      ],
    };
  }

  async onApplicationBootstrap(): Promise<void> {
    const { quorum } = await this.redlock.status();
    const nodes = await this.nodes.states();
    this.feed.begin({
      setting: {
        quorum,
        ttlMax: lockOptions.ttlMax,
        hasOwnNodes: nodes.every((node) => node.process !== null),
        noSaleReason: this.sale.noSaleReason,
      },
      sale: this.sale.state,
      job: this.job.state,
      hands: [],
      nodes,
      resources: [],
    });
    const { log } = this.feed;
    this.#endListening = [listenToLocks('app', log), listenToNodes('app', log)];
  }

  onApplicationShutdown(): void {
    for (const end of this.#endListening) end();
  }
}
