import type { AddressInfo } from 'node:net';

import { expect } from '@jest/globals';
import { Controller } from '@nestjs/common';
import {
  ClientProxyFactory,
  MessagePattern,
  Transport,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import { RedlockService } from 'nestjs-locked';
import { firstValueFrom } from 'rxjs';

import type { Context } from './context.js';

/** Message handlers of a microservice over TCP. */
export const tcp: Context = {
  name: 'a TCP microservice',
  methodName: 'handle',
  classDecorators: () => [Controller()],
  methodDecorators: (operation) => [MessagePattern(operation)],
  async start({ build, handlers }) {
    const module = await build({ controllers: [...handlers] }).compile();
    const service = module.createNestMicroservice<MicroserviceOptions>({
      transport: Transport.TCP,
      options: { port: 0, host: '127.0.0.1' },
    });
    await service.listen();
    const { port } = service.unwrap<{ address(): AddressInfo }>().address();
    const client = ClientProxyFactory.create({
      transport: Transport.TCP,
      options: { port, host: '127.0.0.1' },
    });
    return {
      redlock: service.get(RedlockService),
      // The first value, as most clients do: what comes after it is not seen.
      call: (operation, role) => firstValueFrom(client.send<unknown>(operation, { role })),
      async close() {
        await client.close();
        await service.close();
      },
    };
  },
  told: {
    forbidden: { status: 'error', message: 'Forbidden resource' },
    taken: { status: 'error', code: 'LOCK_TAKEN', retryAfter: expect.any(Number) },
    lost: { status: 'error', code: 'LOCK_LOST' },
  },
};
