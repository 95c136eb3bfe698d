import { expect } from '@jest/globals';
import { BullModule, getQueueToken, Processor, WorkerHost } from '@nestjs/bullmq';
import { QueueEvents, type Queue } from 'bullmq';
import { RedlockService } from 'nestjs-locked';

import { providersOf, type Context } from './context.js';

/** Processors of queues on a real server, shared by the workers of all replicas. */
export const bullmq: Context = {
  name: 'a @nestjs/bullmq processor',
  methodName: 'process',
  base: WorkerHost,
  classDecorators: (operation) => [Processor(operation, { concurrency: 2 })],
  methodDecorators: () => [],
  async start(replica) {
    const connection = { host: '127.0.0.1', port: replica.redisPort };
    const names = replica.handlers.map(({ name }) => name.replace('Handler', ''));
    const queues = names.map((name) => BullModule.registerQueue({ name }));
    const imports = [BullModule.forRoot({ connection }), ...queues];
    const module = await replica.build({ imports, providers: providersOf(replica) }).compile();
    await module.init();
    const events = new Map(names.map((name) => [name, new QueueEvents(name, { connection })]));
    await Promise.all([...events.values()].map((each) => each.waitUntilReady()));
    return {
      redlock: module.get(RedlockService),
      async call(operation) {
        const job = await module.get<Queue>(getQueueToken(operation)).add(operation, {});
        const heard = events.get(operation);
        if (heard === undefined) throw new Error(`There is no queue ${operation}`);
        return job.waitUntilFinished(heard) as Promise<unknown>;
      },
      async close() {
        await Promise.all([...events.values()].map((each) => each.close()));
        await module.close();
      },
    };
  },
  told: {
    forbidden: undefined,
    // A failed job keeps the message alone.
    taken: { message: expect.stringContaining('Could not lock "desk"') },
    lost: { message: expect.stringContaining('"desk"') },
  },
};
