import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Cron, CronExpression, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { currentLock, Locked } from 'nestjs-locked';

import { startModule, threeNodes } from './support/applications.js';

@Injectable()
class Reports {
  readonly runs: string[] = [];

  @Cron(CronExpression.EVERY_YEAR, { name: 'above', waitForCompletion: true })
  @Locked('above', { wait: 0, onTaken: 'skip', holdAtLeast: 60_000 })
  async above(): Promise<void> {
    this.runs.push(...(currentLock()?.resources ?? ['unlocked']));
  }

  @Locked('below', { wait: 0, onTaken: 'skip', holdAtLeast: 60_000 })
  @Cron(CronExpression.EVERY_YEAR, { name: 'below', waitForCompletion: true })
  async below(): Promise<void> {
    this.runs.push(...(currentLock()?.resources ?? ['unlocked']));
  }
}

describe('a @Cron method', () => {
  it('with @Locked above or below runs once over all replicas, locked', async () => {
    const nodes = threeNodes();
    const metadata = { imports: [ScheduleModule.forRoot()], providers: [Reports] };
    const options = { shutdownTimeout: 0 };
    const replicas = [
      await startModule(metadata, options, nodes),
      await startModule(metadata, options, nodes),
    ];

    for (const replica of replicas) {
      for (const name of ['above', 'below']) {
        await replica.get(SchedulerRegistry).getCronJob(name).fireOnTick();
      }
    }

    expect(replicas.map((replica) => replica.get(Reports).runs)).toEqual([['above', 'below'], []]);
  });
});
