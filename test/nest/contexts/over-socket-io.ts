import { expect } from '@jest/globals';
import { UseInterceptors } from '@nestjs/common';
import { IoAdapter } from '@nestjs/platform-socket.io';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { LockedInterceptor, RedlockService } from 'nestjs-locked';
import { io } from 'socket.io-client';

import { providersOf, type Context } from './context.js';

/** Gateways on socket.io. */
export const socketIo: Context = {
  name: 'a socket.io gateway',
  methodName: 'handle',
  // Nest 11 gives gateways no global interceptors.
  classDecorators: (operation) => [
    WebSocketGateway({ namespace: operation }),
    UseInterceptors(LockedInterceptor),
  ],
  methodDecorators: (operation) => [SubscribeMessage(operation)],
  async start(replica) {
    const module = await replica.build({ providers: providersOf(replica) }).compile();
    const application = module.createNestApplication();
    application.useWebSocketAdapter(new IoAdapter(application));
    await application.listen(0, '127.0.0.1');
    const url = await application.getUrl();
    return {
      redlock: application.get(RedlockService),
      close: () => application.close(),
      // A socket for each call: an exception does not say which message it answers.
      async call(operation, role) {
        const socket = io(`${url}/${operation}`, { transports: ['websocket'], forceNew: true });
        try {
          return await new Promise<unknown>((resolve, reject) => {
            socket.on('exception', reject);
            socket.on('connect_error', reject);
            // Nobody answers a message without a handler.
            socket
              .timeout(ANSWER_TIMEOUT)
              .emit(operation, { role }, (late: unknown, done: unknown) =>
                late === null ? resolve(done) : reject(new Error(`No answer to ${operation}`)),
              );
          });
        } finally {
          socket.disconnect();
        }
      },
    };
  },
  told: {
    forbidden: { status: 'error', message: 'Forbidden resource' },
    taken: { status: 'error', code: 'LOCK_TAKEN', retryAfter: expect.any(Number) },
    lost: { status: 'error', code: 'LOCK_LOST' },
  },
};

const ANSWER_TIMEOUT = 5_000;
