import { Module, type DynamicModule } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { RedlockModule, type NodeInput } from 'nestjs-locked';

import { AccountsController } from './accounts/accounts.controller.js';
import { AccountsService } from './accounts/accounts.service.js';
import { HomeController } from './home.controller.js';
import { InventoryController } from './inventory/inventory.controller.js';
import { InventoryService } from './inventory/inventory.service.js';
import { UnlockedInventoryService } from './inventory/unlocked-inventory.service.js';
import { LabModule } from './lab/lab.module.js';
import type { LabInfrastructure } from './lab/lab-infrastructure.js';
import { lockOptions } from './lock-options.js';
import { LocksController } from './locks/locks.controller.js';
import { OperationsModule } from './operations/operations.module.js';
import { ReportController } from './report/report.controller.js';
import { ReportService } from './report/report.service.js';
import { SlowController } from './slow/slow.controller.js';
import { FencedStore } from './store/fenced-store.js';
import { StaleTokenFilter } from './store/stale-token.filter.js';

export interface AppOptions {
  /** The lock nodes; undefined for one node in this process's memory. */
  readonly nodes: readonly NodeInput[] | undefined;
  /** Its creator closes it after the application: a locked body may use it to the very end. */
  readonly store: FencedStore;
  /** False to show what happens without locks. */
  readonly isLocked: boolean;
  /** What the page at `/` shows and may break. @default no page */
  readonly lab?: LabInfrastructure;
}

@Module({})
export class AppModule {
  static register({ nodes, store, isLocked, lab }: AppOptions): DynamicModule {
    return {
      module: AppModule,
      imports: [
        RedlockModule.forRoot(nodes, lockOptions),
        ScheduleModule.forRoot(),
        OperationsModule.register(),
        ...(lab === undefined ? [] : [LabModule.register(lab, store)]),
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
