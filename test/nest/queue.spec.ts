import { describe, expect, it } from '@jest/globals';
import { BullModule, getQueueToken, Processor, WorkerHost } from '@nestjs/bullmq';
import { DelayedError, type Job, type Queue } from 'bullmq';
import { Locked, MemoryNode, RedlockService } from 'nestjs-locked';

import { eventually } from '../support/eventually.js';
import { startServer } from '../support/servers-of-test.js';
import { startModule } from './support/applications.js';

@Processor('plain')
class Plain extends WorkerHost {
  @Locked('order:1', { wait: 0 })
  async process(): Promise<string> {
    return 'done';
  }
}

@Processor('putting-off')
class PuttingOff extends WorkerHost {
  @Locked('order:1', {
    wait: 0,
    onTaken: async (job: Job, token?: string): Promise<never> => {
      await job.moveToDelayed(Date.now() + 50, token);
      throw new DelayedError();
    },
  })
  async process(job: Job): Promise<string> {
    return `done, after ${job.attemptsMade} attempts`;
  }
}

describe('a queue job whose lock is taken', () => {
  it('has failed for good with one attempt, and is put off at no cost by onTaken', async () => {
    const { port } = await startServer();
    const queues = ['plain', 'putting-off'].map((name) => BullModule.registerQueue({ name }));
    const imports = [BullModule.forRoot({ connection: { host: '127.0.0.1', port } }), ...queues];
    const providers = [Plain, PuttingOff];
    const module = await startModule({ imports, providers }, {}, [new MemoryNode()]);
    const queueOf = (name: string): Queue => module.get<Queue>(getQueueToken(name));
    const lock = await module.get(RedlockService).acquire('order:1');
    const plain = await queueOf('plain').add('job', {});
    const putOff = await queueOf('putting-off').add('job', {});
    const latest = async (): Promise<Job> => {
      const job: Job | undefined = await queueOf('putting-off').getJob(putOff.id ?? '');
      return job ?? putOff;
    };
    await eventually(() => plain.isFailed());
    await eventually(async () => (await latest()).attemptsStarted > 1);

    await lock.release();
    await eventually(() => putOff.isCompleted());

    expect((await latest()).returnvalue).toBe('done, after 0 attempts');
    expect(await plain.getState()).toBe('failed');
  });
});
