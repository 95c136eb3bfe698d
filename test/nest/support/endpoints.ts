// A server with one controller, whose endpoints lock the resource 'endpoint'.
import type { Type } from '@nestjs/common';
import { RedlockService } from 'nestjs-locked';

import { startServer, threeNodes } from './applications.js';

export async function startEndpoints<Endpoints extends object>(controller: Type<Endpoints>) {
  const { url, application } = await startServer({ controllers: [controller] }, {}, threeNodes());
  const redlock = application.get(RedlockService);
  return {
    url,
    redlock,
    endpoints: application.get(controller),
    isFree: async () => (await redlock.inspect('endpoint')).state === 'free',
    /** Waits until the lock is free. */
    freed: async () => {
      await (await redlock.acquire('endpoint', 1_000, { wait: 5_000 })).release();
    },
  };
}
