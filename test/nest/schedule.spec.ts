import { describe, expect, it } from '@jest/globals';
import { Injectable, type Type } from '@nestjs/common';
import {
  Cron,
  CronExpression,
  Interval,
  ScheduleModule,
  SchedulerRegistry,
  Timeout,
} from '@nestjs/schedule';
import { currentLock, Locked, RedlockModule } from 'nestjs-locked';

import { Log, startModule, startPlain, threeNodes } from './support/applications.js';

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

describe('the start', () => {
  /** What is logged of schedules when an application with this provider starts. */
  const warningsOf = async (provider: Type): Promise<unknown[][]> => {
    const log = new Log();
    const imports = [RedlockModule.forRoot(threeNodes(), { name: 'a' }), RedlockModule.forRoot()];
    await startPlain({ imports, providers: [provider] }, log);
    return log.lines.filter(([, line]) => String(line).includes('is scheduled'));
  };

  it('warns of scheduled methods that each replica would run, once for each', async () => {
    class Jobs {
      @Cron(CronExpression.EVERY_YEAR)
      @Locked('a', { redlock: 'a' })
      async above(): Promise<void> {}

      @Locked('b', { wait: 0, onTaken: 'skip' })
      @Interval(86_400_000)
      async below(): Promise<void> {}
    }
    class MoreJobs extends Jobs {}

    const warnings = [
      ...(await warningsOf(Jobs)),
      ...(await warningsOf(Jobs)),
      ...(await warningsOf(MoreJobs)),
    ];

    const warning = (method: string): unknown[] => [
      'warn',
      `${method} is scheduled, and its @Locked has no holdAtLeast: replicas may run it one after ` +
        "the other. Say { wait: 0, onTaken: 'skip', holdAtLeast: … } for one run over all of them, " +
        'or holdAtLeast: 0 for one in each (docs/CRON.md of nestjs-locked)',
      'Redlock',
    ];
    expect(warnings.sort()).toEqual([warning('Jobs.above'), warning('Jobs.below')]);
  });

  it('is silent on methods that say for how long, run once, or are not locked', async () => {
    class Parent {
      @Locked('a')
      async overridden(): Promise<void> {}
    }
    class Jobs extends Parent {
      @Cron(CronExpression.EVERY_YEAR)
      @Locked('a', { wait: 0, onTaken: 'skip', holdAtLeast: 60_000 })
      async once(): Promise<void> {}

      @Cron(CronExpression.EVERY_YEAR)
      @Locked('b', { holdAtLeast: 0 })
      async inEach(): Promise<void> {}

      @Timeout(86_400_000)
      @Locked('c')
      async afterStart(): Promise<void> {}

      @Locked('d')
      async called(): Promise<void> {}

      @Cron(CronExpression.EVERY_YEAR)
      override async overridden(): Promise<void> {}

      @Locked('e')
      async hidden(): Promise<void> {}

      constructor() {
        super();
        Object.defineProperty(this, 'hidden', { value: null });
      }
    }

    expect(await warningsOf(Jobs)).toEqual([]);
  });
});
