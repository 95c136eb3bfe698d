// Inner interceptors that go on in a callback of something that calls share.
import { AsyncResource } from 'node:async_hooks';

import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { currentLock, fromContext, Locked } from 'nestjs-locked';
import { Observable } from 'rxjs';

import { startEndpoints } from './support/endpoints.js';
import { get, requestOf } from './support/requests.js';

// Its callbacks run in the async context of whoever made it.
const inContextOfPool = AsyncResource.bind((callback: () => void) => callback());

class Pool implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return new Observable((subscriber) => {
      const callback = (): unknown => next.handle().subscribe(subscriber);
      const isBound = requestOf(context).headers['x-bound'] !== undefined;
      inContextOfPool(isBound ? AsyncResource.bind(callback) : callback);
    });
  }
}

@Controller()
@UseInterceptors(Pool)
class Endpoints {
  @Get('literal')
  @Locked('literal')
  async literal(): Promise<unknown> {
    return currentLock()?.resources;
  }

  @Get('context')
  @Locked(fromContext(() => 'context'))
  async context(): Promise<unknown> {
    return currentLock()?.resources;
  }
}

describe('an inner interceptor that goes on in a callback of a connection pool', () => {
  it.each([
    ['literal', 423],
    ['context', 500],
  ])('fails, as it has left its context: %s %i', async (path, status) => {
    const { url } = await startEndpoints(Endpoints);

    expect((await get(url, `/${path}`)).status).toBe(status);
  });

  it.each(['literal', 'context'])('answers once the callback is bound: %s', async (path) => {
    const { url } = await startEndpoints(Endpoints);

    const { status, body } = await get(url, `/${path}`, { headers: { 'x-bound': 'yes' } });

    expect([status, body]).toEqual([200, JSON.stringify([path])]);
  });
});
