import { Module, type DynamicModule } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { RedlockModule, seconds, type NodeInput, type RedlockOptions } from 'nestjs-locked';

import { AccountsController } from './accounts/accounts.controller.js';
import { AccountsService } from './accounts/accounts.service.js';
import { HomeController } from './home.controller.js';
import { InventoryController } from './inventory/inventory.controller.js';
import { InventoryService } from './inventory/inventory.service.js';
import { UnlockedInventoryService } from './inventory/unlocked-inventory.service.js';
import { LocksController } from './locks/locks.controller.js';
import { OperationsModule } from './operations/operations.module.js';
import { ReportController } from './report/report.controller.js';
import { ReportService } from './report/report.service.js';
import { SlowController } from './slow/slow.controller.js';
import { FencedStore } from './store/fenced-store.js';
import { StaleTokenFilter } from './store/stale-token.filter.js';

export interface AppOptions {
  /** Undefined: one node in this process's memory. */
  readonly nodes: readonly NodeInput[] | undefined;
  /** Whoever made it closes it, after the application: a locked body may use it to the end. */
  readonly store: FencedStore;
  /** False shows what happens without locks. */
  readonly isLocked: boolean;
}

const lockOptions: RedlockOptions = {
  // No lock here lives longer than this without being extended. It is also how long a node that
  // has just started does not vote, as it may have forgotten locks: with the default of 30 s,
  // brand-new nodes would keep a first visitor waiting for as long. The same in all replicas.
  ttlMax: seconds(3),
  // The nodes may be somebody's own Redis servers.
  keyPrefix: 'sample-app:',
};

@Module({})
export class AppModule {
  static register({ nodes, store, isLocked }: AppOptions): DynamicModule {
    return {
      module: AppModule,
      imports: [
        RedlockModule.forRoot(nodes, lockOptions),
        ScheduleModule.forRoot(),
        OperationsModule.register(),
      ],
      controllers: [
        HomeController,
        AccountsController,
        InventoryController,
        LocksController,
        ReportController,
        SlowController,
      ],
      providers: [
        { provide: FencedStore, useValue: store },
        {
          provide: InventoryService,
          useClass: isLocked ? InventoryService : UnlockedInventoryService,
        },
        AccountsService,
        ReportService,
        { provide: APP_FILTER, useClass: StaleTokenFilter },
      ],
    };
  }
}
