import { WsAdapter } from '@nestjs/platform-ws';
import type { TestingModule } from '@nestjs/testing';
import { RedlockService } from 'nestjs-locked';
import WebSocket from 'ws';

import { afterTest } from '../../support/after-test.js';

/** Gateways over WebSockets, and a client of them. */
export interface GatewayService {
  readonly redlock: RedlockService;
  /** Sends an event; resolves with the first message that comes back. */
  ask(event: string, data: unknown): Promise<unknown>;
}

/** Starts a module's gateways on a port that the system chooses, until the end of the test. */
export async function startGateways(module: TestingModule): Promise<GatewayService> {
  const application = module.createNestApplication();
  application.useWebSocketAdapter(new WsAdapter(application));
  await application.listen(0, '127.0.0.1');
  afterTest(() => application.close());
  const socket = new WebSocket((await application.getUrl()).replace('http', 'ws'));
  await new Promise((resolve) => socket.once('open', resolve));
  afterTest(() => socket.terminate());
  const ask = (event: string, data: unknown): Promise<unknown> =>
    new Promise((resolve) => {
      socket.once('message', (message: Buffer) => {
        resolve(JSON.parse(message.toString()) as unknown);
      });
      socket.send(JSON.stringify({ event, data }));
    });
  return { redlock: application.get(RedlockService), ask };
}
