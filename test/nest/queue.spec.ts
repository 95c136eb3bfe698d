import { describe, expect, it } from '@jest/globals';
import { BullModule, getQueueToken, Processor, WorkerHost } from '@nestjs/bullmq';
import { DelayedError, type Job, type Queue } from 'bullmq';
import { Locked, RedlockError } from 'nestjs-locked';
import { FaultyNode } from 'nestjs-locked/testing';

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

// As docs/CONTEXTS.md says.
const healsWithTime = new Set(['LOCK_TAKEN', 'NO_QUORUM', 'LOCK_EXPIRED', 'REDLOCK_CLOSED']);

@Processor('putting-off')
class PuttingOff extends WorkerHost {
  async process(job: Job, token?: string): Promise<string> {
    try {
      return await this.work(job);
    } catch (error) {
      if (!(error instanceof RedlockError && healsWithTime.has(error.code))) throw error;
      await job.moveToDelayed(Date.now() + 50, token);
      throw new DelayedError();
    }
  }

  @Locked('order:1', { wait: 0 })
  async work(job: Job): Promise<string> {
    return `done, after ${job.attemptsMade} attempts`;
  }
}

describe('a queue job that gets no lock', () => {
  const cases: [string, (node: FaultyNode) => void][] = [
    ['the lock is taken', (node) => node.occupy('order:1', 60_000)],
    ['no quorum votes', (node) => node.refuse()],
  ];

  it.each(cases)(
    'has failed for good with one attempt, and is put off at no cost by who catches it: %s',
    async (_, breakNode) => {
      const { port } = await startServer();
      const queues = ['plain', 'putting-off'].map((name) => BullModule.registerQueue({ name }));
      const imports = [BullModule.forRoot({ connection: { host: '127.0.0.1', port } }), ...queues];
      const providers = [Plain, PuttingOff];
      const node = new FaultyNode();
      const module = await startModule({ imports, providers }, {}, [node]);
      const queueOf = (name: string): Queue => module.get<Queue>(getQueueToken(name));
      breakNode(node);
      const plain = await queueOf('plain').add('job', {});
      const putOff = await queueOf('putting-off').add('job', {});
      const latest = async (): Promise<Job> => {
        const job: Job | undefined = await queueOf('putting-off').getJob(putOff.id ?? '');
        return job ?? putOff;
      };
      await eventually(() => plain.isFailed());
      await eventually(async () => (await latest()).attemptsStarted > 1);

      node.vacate('order:1');
      node.heal();
      await eventually(() => putOff.isCompleted());

      expect((await latest()).returnvalue).toBe('done, after 0 attempts');
      expect(await plain.getState()).toBe('failed');
    },
  );
});
