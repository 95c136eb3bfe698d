import { expect } from '@jest/globals';
import { UseInterceptors } from '@nestjs/common';
import { IoAdapter } from '@nestjs/platform-socket.io';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { LockedInterceptor } from 'nestjs-locked';
import { io } from 'socket.io-client';

import { listen, providersOf, type Context } from './context.js';

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
    return listen(application, (url) => async (operation, role) => {
      // A socket for each call: an exception does not say which message it answers.
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
    });
  },
  told: {
    forbidden: { status: 'error', message: 'Forbidden resource' },
    taken: { status: 'error', code: 'LOCK_TAKEN', retryAfter: expect.any(Number) },
    lost: { status: 'error', code: 'LOCK_LOST' },
  },
};

const ANSWER_TIMEOUT = 5_000;
