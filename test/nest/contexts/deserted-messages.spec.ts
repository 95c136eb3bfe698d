// Messages of gateways whose clients do not wait for their lock as long as the server would.
import { expect, it } from '@jest/globals';
import { UseInterceptors } from '@nestjs/common';
import { IoAdapter } from '@nestjs/platform-socket.io';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Test } from '@nestjs/testing';
import {
  Locked,
  LockedInterceptor,
  MemoryNode,
  RedlockModule,
  RedlockService,
} from 'nestjs-locked';
import { io } from 'socket.io-client';

import { afterTest } from '../../support/after-test.js';
import { eventually } from '../../support/eventually.js';
import { Log } from '../support/applications.js';

const ran: string[] = [];

@WebSocketGateway()
@UseInterceptors(LockedInterceptor)
class Board {
  @SubscribeMessage('literal')
  @Locked('board')
  async literal(_client: unknown, sender: string): Promise<void> {
    ran.push(sender);
  }

  @SubscribeMessage('arguments')
  @Locked(() => 'board')
  async arguments(_client: unknown, sender: string): Promise<void> {
    ran.push(sender);
  }
}

it.each(['literal', 'arguments'])(
  'a message does not run if its client disconnects while it waits: %s',
  async (message) => {
    ran.length = 0;
    const module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot([new MemoryNode()], { wait: 60_000 })],
      providers: [Board],
    })
      .setLogger(new Log())
      .compile();
    const application = module.createNestApplication({ forceCloseConnections: true });
    application.useWebSocketAdapter(new IoAdapter(application));
    await application.listen(0, '127.0.0.1');
    afterTest(() => application.close());
    const redlock = application.get(RedlockService);
    const waiting = async (): Promise<number> => (await redlock.status()).waiting;
    const url = await application.getUrl();
    const [leaving, staying] = ['leaving', 'staying'].map((sender) => {
      const socket = io(url, { transports: ['websocket'], forceNew: true });
      afterTest(() => void socket.disconnect());
      return { socket, send: () => void socket.emit(message, sender) };
    }) as [Sender, Sender];
    const lock = await redlock.acquire('board', 30_000);
    leaving.send();
    await eventually(async () => (await waiting()) === 1);

    leaving.socket.disconnect();

    await eventually(async () => (await waiting()) === 0);
    staying.send();
    await eventually(async () => (await waiting()) === 1);
    await lock.release();
    await eventually(() => ran.length > 0);
    expect(ran).toEqual(['staying']);
  },
);

interface Sender {
  readonly socket: ReturnType<typeof io>;
  readonly send: () => void;
}
