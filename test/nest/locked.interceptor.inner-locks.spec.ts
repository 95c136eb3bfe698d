// A handler inside a lock that an inner interceptor holds around it, as of the caller's tenant.
import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { currentLock, fromContext, Locked, RedlockService } from 'nestjs-locked';
import { concatMap, defer, lastValueFrom, retry, toArray, type Observable } from 'rxjs';

import { startEndpoints } from './support/endpoints.js';
import { rejection } from './support/events.js';
import { get } from './support/requests.js';

describe('a @Locked endpoint inside a lock of an inner interceptor', () => {
  @Injectable()
  class TenantLock implements NestInterceptor {
    readonly redlock: RedlockService;
    constructor(redlock: RedlockService) {
      this.redlock = redlock;
    }

    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const answer = (): Promise<unknown> => lastValueFrom(next.handle().pipe(toArray()));
      return defer(() => this.redlock.using('tenant', answer)).pipe(retry(1));
    }
  }

  @Controller()
  @UseInterceptors(TenantLock)
  class Endpoints {
    readonly redlock: RedlockService;
    constructor(redlock: RedlockService) {
      this.redlock = redlock;
    }

    @Get('literal')
    @Locked('endpoint')
    async literal(): Promise<unknown> {
      return this.held();
    }

    @Get('context')
    @Locked(fromContext(() => 'endpoint'))
    async context(): Promise<unknown> {
      return this.held();
    }

    @Get('arguments')
    @Locked(() => 'endpoint')
    async arguments(): Promise<unknown> {
      return this.held();
    }

    @Get('observable')
    @Locked('endpoint')
    observable(): Observable<unknown> {
      return defer(() => this.held());
    }

    @Get('retried/literal')
    @Locked('endpoint')
    async retriedLiteral(): Promise<unknown> {
      return this.retried();
    }

    private async retried(): Promise<unknown> {
      this.tries += 1;
      if (this.tries === 1) throw new Error('flaky');
      return this.held();
    }

    @Get('retried/arguments')
    @Locked(() => 'endpoint')
    async retriedArguments(): Promise<unknown> {
      return this.retried();
    }

    private tries = 0;

    /** What the handler's context knows of its locks. */
    private async held(): Promise<unknown> {
      const again = await rejection(this.redlock.using('endpoint', () => 'ran'));
      const refused = await rejection(this.redlock.using('tenant', () => 'ran'));
      return {
        own: currentLock()?.resources,
        again: String(again),
        refused: String(refused),
        joined: await this.redlock.using('tenant', { reentrant: true }, () => 'joined'),
      };
    }
  }

  it.each([
    'literal',
    'context',
    'arguments',
    'observable',
    'retried/literal',
    'retried/arguments',
  ])('knows both locks in its handler, and its own is the current one: %s', async (kind) => {
    const { url, isFree } = await startEndpoints(Endpoints);

    const { status, body } = await get(url, `/${kind}`);

    expect(status).toBe(200);
    expect(JSON.parse(body)).toEqual([
      {
        own: ['endpoint'],
        again: expect.stringMatching(/already holds "endpoint" in Endpoints\.\w+: it would wait/),
        refused: expect.stringMatching(/already holds "tenant" in RedlockService\.using: it would/),
        joined: 'joined',
      },
    ]);
    expect(await isFree()).toBe(true);
  });
});

describe('an inner interceptor of a @Locked endpoint', () => {
  const known: unknown[] = [];

  @Injectable()
  class Audit implements NestInterceptor {
    readonly redlock: RedlockService;
    constructor(redlock: RedlockService) {
      this.redlock = redlock;
    }

    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return defer(() => this.look()).pipe(
        concatMap(() => next.handle()),
        concatMap(async (answer: unknown) => {
          await this.look();
          return answer;
        }),
      );
    }

    private async look(): Promise<void> {
      const again = await rejection(this.redlock.using('endpoint', { wait: 0 }, () => 'ran'));
      known.push(currentLock()?.resources, String(again));
    }
  }

  @Controller()
  @UseInterceptors(Audit)
  class Endpoints {
    @Get()
    @Locked('endpoint')
    async answer(): Promise<string> {
      return 'done';
    }
  }

  it('knows the lock that it runs in, before and after the handler, and is refused a second', async () => {
    const { url } = await startEndpoints(Endpoints);
    const refusal = expect.stringMatching(
      /already holds "endpoint" in Endpoints\.answer: it would/,
    );

    const { body } = await get(url, '/');

    expect(body).toBe('done');
    expect(known).toEqual([['endpoint'], refusal, ['endpoint'], refusal]);
  });
});
