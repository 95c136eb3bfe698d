/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// A busy lock is no server error: each transport gets its own kind.
import { describe, expect, it } from '@jest/globals';
import { Catch, type ArgumentsHost } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { BaseRpcExceptionFilter } from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Locked, RedlockModule, RedlockService } from 'nestjs-locked';
import { lastValueFrom } from 'rxjs';

import { afterTest } from '../support/after-test.js';
import { AccountEndpoints, Deep } from './support/account-endpoints.js';
import { Log, threeNodes } from './support/applications.js';
import { rejection } from './support/events.js';
import { startGateways } from './support/gateway-service.js';
import { startTcpService } from './support/tcp-service.js';

describe('over a microservice', () => {
  const caught: unknown[] = [];
  @Catch()
  class Filter extends BaseRpcExceptionFilter {
    override catch(exception: unknown, host: ArgumentsHost) {
      caught.push(exception);
      return super.catch(exception, host);
    }
  }

  async function ask(pattern: string): Promise<unknown> {
    const module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot(threeNodes())],
      controllers: [AccountEndpoints],
      providers: [Deep, { provide: APP_FILTER, useClass: Filter }],
    })
      .setLogger(new Log())
      .compile();
    const { service, client, close } = await startTcpService(module);
    afterTest(close);

    const send = (): Promise<unknown> => lastValueFrom(client.send(pattern, {}));
    expect(await send()).toBe('done');
    return service.get(RedlockService).using('account:42', { ttl: 5_000 }, () => rejection(send()));
  }

  it.each(['locked', 'deep'])('a taken lock is an RpcException: %s', async (pattern) => {
    const answer = await ask(pattern);

    expect(answer).toEqual({
      status: 'error',
      message: 'The resource is locked by another call',
      code: 'LOCK_TAKEN',
      retryAfter: expect.any(Number),
    });
    // In seconds, of a ttl of 5 s; in ms it would be thousands.
    expect(Reflect.get(Object(answer), 'retryAfter')).toBeLessThanOrEqual(5);
    expect(caught.pop()).toMatchObject({ cause: { code: 'LOCK_TAKEN' } });
  });
});

describe('over a WebSocket', () => {
  @WebSocketGateway()
  class Gateway {
    @SubscribeMessage('run')
    @Locked((id: string) => `account:${id}`, { wait: 0 })
    async run(@MessageBody() _id: string): Promise<unknown> {
      return { event: 'ran', data: 'done' };
    }
  }

  it('a taken lock is a WsException', async () => {
    const module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot(threeNodes())],
      providers: [Gateway],
    })
      .setLogger(new Log())
      .compile();
    const { redlock, ask } = await startGateways(module);

    const free = await ask('run', '42');
    const taken = await redlock.using('account:42', { ttl: 5_000 }, () => ask('run', '42'));

    expect(free).toEqual({ event: 'ran', data: 'done' });
    expect(taken).toEqual({
      event: 'exception',
      data: {
        status: 'error',
        message: 'The resource is locked by another call',
        code: 'LOCK_TAKEN',
        retryAfter: expect.any(Number),
      },
    });
  });
});
