import { expect } from '@jest/globals';
import { Controller } from '@nestjs/common';
import { MessagePattern } from '@nestjs/microservices';
import { RedlockService } from 'nestjs-locked';
import { firstValueFrom } from 'rxjs';

import { startTcpService } from '../support/tcp-service.js';
import type { Context } from './context.js';

/** Message handlers of a microservice over TCP. */
export const tcp: Context = {
  name: 'a TCP microservice',
  methodName: 'handle',
  classDecorators: () => [Controller()],
  methodDecorators: (operation) => [MessagePattern(operation)],
  async start({ build, handlers }) {
    const module = await build({ controllers: [...handlers] }).compile();
    const { service, client, close } = await startTcpService(module);
    return {
      redlock: service.get(RedlockService),
      // The first value, as most clients do: what comes after it is not seen.
      call: (operation, role) => firstValueFrom(client.send<unknown>(operation, { role })),
      close,
    };
  },
  told: {
    forbidden: { status: 'error', message: 'Forbidden resource' },
    taken: { status: 'error', code: 'LOCK_TAKEN', retryAfter: expect.any(Number) },
    lost: { status: 'error', code: 'LOCK_LOST' },
  },
};
