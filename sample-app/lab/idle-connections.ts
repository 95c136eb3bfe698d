import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

import { Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';

/**
 * Closes idle connections when the application ends. Browsers open some in advance, and keep those
 * whose event stream has just ended: Node would wait for both until they time out.
 */
@Injectable()
export class IdleConnections implements OnModuleInit, BeforeApplicationShutdown {
  readonly #idle = new Set<Socket>();
  #isEnding = false;

  constructor(private readonly host: HttpAdapterHost) {}

  onModuleInit(): void {
    const server = this.host.httpAdapter.getHttpServer() as Server;
    server.on('connection', (socket: Socket) => {
      this.#rest(socket);
      socket.once('close', () => this.#idle.delete(socket));
    });
    server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
      this.#idle.delete(socket);
      response.once('close', () => this.#rest(socket));
    });
  }

  beforeApplicationShutdown(): void {
    this.#isEnding = true;
    for (const socket of this.#idle) socket.destroy();
  }

  #rest(socket: Socket): void {
    if (this.#isEnding) socket.destroySoon();
    else if (!socket.destroyed) this.#idle.add(socket);
  }
}
