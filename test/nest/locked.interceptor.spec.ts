/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// `@Locked` endpoints over real HTTP: what they answer, and what they leave to others.
import { AsyncLocalStorage } from 'node:async_hooks';

import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  Param,
  ParseIntPipe,
  Scope,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { currentLock, fromContext, Locked, RedlockModule, RedlockService } from 'nestjs-locked';
import { from, map, Observable, of, timer } from 'rxjs';
import { mergeMap, take, tap } from 'rxjs/operators';

import { startServer } from './support/applications.js';
import { queryOf, rejection } from './support/events.js';
import { startEndpoints } from './support/endpoints.js';
import { get } from './support/requests.js';

describe('a @Locked endpoint', () => {
  const store = new AsyncLocalStorage<string>();
  let namings = 0;

  @Injectable()
  class Stored implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return store.run('transaction', () => next.handle());
    }
  }

  @Controller()
  class Endpoints {
    @Get('value')
    @Locked('endpoint')
    value(): Observable<string> {
      return of('value');
    }

    @Get('again')
    @Locked('endpoint')
    async again(): Promise<unknown> {
      return String(await rejection(this.again()));
    }

    @Get('againBy')
    @Locked(() => 'endpoint')
    async againBy(): Promise<unknown> {
      return String(await rejection(this.againBy()));
    }

    @Get('context/literal')
    @UseInterceptors(Stored)
    @Locked('endpoint')
    async contextOfLiteral(): Promise<unknown> {
      return `${store.getStore()}, ${String(currentLock()?.resources)}`;
    }

    @Get('context/arguments')
    @UseInterceptors(Stored)
    @Locked(() => 'endpoint')
    async contextOfArguments(): Promise<unknown> {
      return `${store.getStore()}, ${String(currentLock()?.resources)}`;
    }

    @Get('skip')
    @Locked('endpoint', { wait: 0, onTaken: 'skip' })
    async skip(): Promise<string | undefined> {
      return 'ran';
    }

    @Get('fallback/:id')
    @Locked('endpoint', { wait: 0, onTaken: (id: number) => `no ${id + 1}` })
    async fallback(@Param('id', ParseIntPipe) id: number): Promise<string> {
      return `yes ${id}`;
    }

    @Get('fallback-by/:id')
    @Locked((_id: string) => 'endpoint', { wait: 0, onTaken: (id: string) => `no ${id}` })
    async fallbackBy(@Param('id') id: string): Promise<string> {
      return `yes ${id}`;
    }

    @Get('named')
    @Locked(fromContext(() => `naming:${(namings += 1)}`))
    async named(): Promise<unknown> {
      return currentLock()?.resources;
    }

    @Get('synchronous')
    // @ts-expect-error -- synchronous
    @Locked('endpoint')
    synchronous() {
      return { count: 1 };
    }
  }

  it('answers with what its Observable emits', async () => {
    const { url, isFree } = await startEndpoints(Endpoints);

    expect(await get(url, '/value')).toMatchObject({ status: 200, body: 'value' });
    expect(await isFree()).toBe(true);
  });

  it.each(['again', 'againBy'])('refuses a handler that calls itself: %s', async (name) => {
    const { url } = await startEndpoints(Endpoints);

    expect((await get(url, `/${name}`)).body).toContain(`LockReentryError: Endpoints.${name} asks`);
  });

  it.each(['literal', 'arguments'])(
    'leaves the async context of inner interceptors to the handler: %s',
    async (kind) => {
      const { url } = await startEndpoints(Endpoints);

      expect((await get(url, `/context/${kind}`)).body).toBe('transaction, endpoint');
    },
  );

  it('asks fromContext once for each call', async () => {
    const { url } = await startEndpoints(Endpoints);

    expect((await get(url, '/named')).body).toBe('["naming:1"]');
    expect((await get(url, '/named')).body).toBe('["naming:2"]');
  });

  it('does not answer with what a synchronous handler returned', async () => {
    const { url, isFree } = await startEndpoints(Endpoints);

    expect((await get(url, '/synchronous')).status).toBe(500);
    expect(await isFree()).toBe(true);
  });

  it('skips or falls back with the arguments that the pipes made', async () => {
    const { url, redlock } = await startEndpoints(Endpoints);
    const paths = ['/skip', '/fallback/7', '/fallback-by/7'];
    const ask = async () => Promise.all(paths.map(async (path) => (await get(url, path)).body));

    const taken = await redlock.using('endpoint', ask);
    const free = [];
    for (const path of paths) free.push((await get(url, path)).body);

    expect(taken).toEqual(['', 'no 8', 'no 7']);
    expect(free).toEqual(['ran', 'yes 7', 'yes 7']);
  });
});

describe('another @Locked method that an inner interceptor calls', () => {
  it('has a lock of its own, and leaves the one of the endpoint to the handler', async () => {
    @Injectable()
    class Opening implements NestInterceptor {
      intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
        return from(this.open()).pipe(
          mergeMap((opened) => next.handle().pipe(map((handled: unknown) => [opened, handled]))),
        );
      }

      @Locked('ledger')
      private async open(): Promise<unknown> {
        return currentLock()?.resources;
      }
    }
    @Controller()
    @UseInterceptors(Opening)
    class Books {
      @Get()
      @Locked('book')
      async run(): Promise<unknown> {
        return currentLock()?.resources;
      }
    }
    const { url } = await startServer({ controllers: [Books] });

    expect(JSON.parse((await get(url, '/')).body)).toEqual([['ledger'], ['book']]);
  });
});

describe('a @Locked endpoint of a request-scoped controller', () => {
  it('locks, with the interceptor and without', async () => {
    @Controller({ scope: Scope.REQUEST })
    class PerRequest {
      @Get()
      @Locked('request')
      async run(): Promise<unknown> {
        return currentLock()?.resources;
      }
    }

    for (const interceptor of [true, false]) {
      const { url } = await startServer({ controllers: [PerRequest] }, { interceptor });
      expect((await get(url, '/')).body).toBe('["request"]');
    }
  });
});

describe('an application with several lock domains', () => {
  it('acquires once for a call, in the domain that the endpoint names', async () => {
    @Controller()
    class Bills {
      @Get()
      @Locked('bill', { redlock: 'billing' })
      async run(): Promise<unknown> {
        return currentLock()?.resources;
      }
    }
    const { url, application } = await startServer({
      imports: [RedlockModule.forRoot(undefined, { name: 'billing', wait: 0 })],
      controllers: [Bills],
    });
    const redlock = application.get(RedlockService);

    await redlock.using('bill', async () => {
      expect(await get(url, '/')).toMatchObject({ status: 200, body: '["bill"]' });
    });
  });
});

it('an outer interceptor gets each value of a @Locked endpoint outside of its lock', async () => {
  const seen: unknown[] = [];
  const outer: NestInterceptor = {
    intercept: (_context, next) => next.handle().pipe(tap(() => seen.push(currentLock()))),
  };
  @Controller()
  class Feed {
    @Get()
    @Locked('feed')
    values(): Observable<number> {
      return timer(0, 5).pipe(take(2));
    }
  }
  const providers = [{ provide: APP_INTERCEPTOR, useValue: outer }];
  const { url } = await startServer({ controllers: [Feed], providers });

  await get(url, '/');

  expect(seen).toEqual([undefined, undefined]);
});

describe('a @Locked endpoint that returns a query', () => {
  /** Answers with a query that is iterable too, as those of Mongoose are. */
  const asking: NestInterceptor = {
    intercept: (_context, next) =>
      next.handle().pipe(
        map((text) => {
          const query = queryOf(() => `rows of ${text}`);
          return Object.assign(query, { [Symbol.asyncIterator]: () => from([]) });
        }),
      ),
  };

  @Controller()
  class Queries {
    @Get('literal')
    @Locked('literal')
    literal(): Promise<string> {
      return queryOf(() => String(currentLock()?.resources));
    }

    @Get('computed')
    @Locked(() => 'computed')
    computed(): Promise<string> {
      return queryOf(() => String(currentLock()?.resources));
    }

    @Get('mapped')
    @UseInterceptors(asking)
    @Locked('mapped')
    async mapped(): Promise<string> {
      return 'SELECT';
    }
  }

  it.each(['literal', 'computed'])('has its lock when the query begins: %s', async (path) => {
    const { url } = await startServer({ controllers: [Queries] });

    expect((await get(url, `/${path}`)).body).toBe(path);
  });

  it('answers with its result where an inner interceptor made it', async () => {
    const { url } = await startServer({ controllers: [Queries] });

    expect((await get(url, '/mapped')).body).toBe('rows of SELECT');
  });
});
