/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// `@Locked` endpoints over real HTTP: decorator orders, guards, and how long the lock lasts.
import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { getEventListeners } from 'node:events';
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

import { describe, expect, it } from '@jest/globals';
import {
  Catch,
  Controller,
  Get,
  HttpCode,
  Injectable,
  NotFoundException,
  Param,
  ParseIntPipe,
  Query,
  Res,
  Scope,
  SetMetadata,
  Sse,
  StreamableFile,
  UseGuards,
  UseInterceptors,
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  type ExecutionContext,
  type MessageEvent,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_FILTER, APP_INTERCEPTOR, BaseExceptionFilter, Reflector } from '@nestjs/core';
import { currentLock, fromContext, Locked, RedlockModule, RedlockService } from 'nestjs-locked';
import { concat, defer, from, map, merge, Observable, of, Subject, throwError, timer } from 'rxjs';
import { mergeMap, raceWith, retry, takeUntil } from 'rxjs/operators';

import { afterTest } from '../support/after-test.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { startServer, threeNodes } from './support/applications.js';
import { faultyNodes, loseLock } from './support/faulty-nodes.js';
import { Gate, queryOf, rejection, turn } from './support/events.js';
import { requestOf, get } from './support/requests.js';

describe('a role guard on a @Locked endpoint', () => {
  const Roles = (...roles: string[]) => SetMetadata('roles', roles);

  @Injectable()
  class RoleGuard implements CanActivate {
    readonly reflector: Reflector;
    constructor(reflector: Reflector) {
      this.reflector = reflector;
    }

    // Like most role guards: no roles named, everybody may come in.
    canActivate(context: ExecutionContext): boolean {
      const roles = this.reflector.get<string[] | undefined>('roles', context.getHandler());
      return roles?.includes(requestOf(context).headers.role ?? '') ?? true;
    }
  }

  @Controller()
  class Vault {
    @Locked('vault')
    @Get('top')
    @UseGuards(RoleGuard)
    @Roles('admin')
    @HttpCode(202)
    async top(): Promise<string> {
      return 'gold';
    }

    @Get('bottom')
    @UseGuards(RoleGuard)
    @Roles('admin')
    @HttpCode(202)
    @Locked('vault')
    async bottom(): Promise<string> {
      return 'gold';
    }

    @Get('middle')
    @Roles('admin')
    @Locked('vault')
    @UseGuards(RoleGuard)
    @HttpCode(202)
    async middle(): Promise<string> {
      return 'gold';
    }

    @Roles('admin')
    @Locked((id: number) => `vault:${id}`)
    @Get('by/:id')
    @UseGuards(RoleGuard)
    @HttpCode(202)
    async byId(@Param('id', ParseIntPipe) id: number, @Query('q') q: string): Promise<unknown> {
      return { id, q, locked: currentLock()?.resources };
    }
  }

  it.each(['/top', '/bottom', '/middle', '/by/7'])(
    'keeps strangers out and lets admins in, whatever the order: %s',
    async (path) => {
      const { url } = await startServer({ controllers: [Vault] });

      const stranger = await get(url, path, { headers: { role: 'user' } });
      const admin = await get(url, path, { headers: { role: 'admin' } });

      expect(stranger.status).toBe(403);
      expect(admin.status).toBe(202);
    },
  );

  it('passes parameters through pipes, and locks by what they made of them', async () => {
    const { url } = await startServer({ controllers: [Vault] });

    const good = await get(url, '/by/7?q=x', { headers: { role: 'admin' } });
    const bad = await get(url, '/by/seven', { headers: { role: 'admin' } });

    expect(JSON.parse(good.body)).toEqual({ id: 7, q: 'x', locked: ['vault:7'] });
    expect(bad.status).toBe(400);
  });

  it('acquires nothing for a request that a guard refuses', async () => {
    const { url, application } = await startServer({ controllers: [Vault] });
    const redlock = application.get(RedlockService);

    await redlock.using('vault', async () => {
      expect((await get(url, '/top', { headers: { role: 'user' } })).status).toBe(403);
    });
  });
});

describe('a @Locked endpoint', () => {
  const nodes = threeNodes();
  const feed = { events: new Subject<MessageEvent>(), stream: new Readable() };
  const gates = {
    entered: new Gate(),
    leave: new Gate(),
    left: new Gate(),
    busy: new Gate(),
  };

  @Injectable()
  class Timeout implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const tooLate = timer(20).pipe(
        map(() => {
          throw new NotFoundException('too late');
        }),
      );
      return next.handle().pipe(raceWith(tooLate));
    }
  }

  @Injectable()
  class Retrying implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return next.handle().pipe(retry(2));
    }
  }

  @Injectable()
  class Failing implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const failure = throwError(() => new Error('while the handler goes on'));
      const failing = defer(() => gates.busy.passed).pipe(
        mergeMap(() => concat(of({ data: 'one' }), failure)),
      );
      return merge(next.handle(), failing);
    }
  }

  const store = new AsyncLocalStorage<string>();

  @Injectable()
  class Stored implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return store.run('transaction', () => next.handle());
    }
  }

  @Injectable()
  class Cached implements NestInterceptor {
    intercept(): Observable<unknown> {
      answersFromCache += 1;
      return of('cached');
    }
  }

  let changes = 0;
  let namings = 0;
  let answersFromCache = 0;
  const listeners: number[] = [];

  @Controller()
  class Endpoints {
    tries = 0;

    @Sse('events')
    @Locked('endpoint')
    events(): Observable<MessageEvent> {
      return feed.events;
    }

    @Sse('burst')
    @Locked('endpoint')
    burst(): Observable<MessageEvent> {
      return of({ data: 'one' }, { data: 'two' }, { data: 'three' });
    }

    @Sse('events/failing')
    @UseInterceptors(Failing)
    @Locked('endpoint')
    eventsFailing(): Observable<MessageEvent> {
      return new Observable(() => gates.busy.open());
    }

    @Get('file')
    @Locked('endpoint')
    async file(): Promise<StreamableFile> {
      return new StreamableFile(feed.stream);
    }

    @Get('piped')
    @Locked('endpoint')
    async piped(@Res() response: ServerResponse): Promise<void> {
      feed.stream.pipe(response);
    }

    @Get('piped-to-the-end')
    @Locked('endpoint')
    async pipedToTheEnd(@Res() response: ServerResponse): Promise<void> {
      await pipeline(feed.stream, response);
    }

    @Get('slow')
    @UseInterceptors(Timeout)
    @Locked('endpoint')
    async slow(): Promise<void> {
      gates.entered.open();
      await gates.leave.passed;
      gates.left.open();
    }

    @Get('queued')
    @UseInterceptors(Timeout)
    @Locked(() => 'endpoint', { wait: 60_000 })
    async queued(): Promise<void> {
      this.tries += 1;
    }

    @Get('retried/literal')
    @UseInterceptors(Retrying)
    @Locked('endpoint')
    async retriedLiteral(): Promise<string> {
      return this.flaky();
    }

    @Get('retried/arguments')
    @UseInterceptors(Retrying)
    @Locked(() => 'endpoint')
    async retriedArguments(): Promise<string> {
      return this.flaky();
    }

    @Get('retried/observable')
    @UseInterceptors(Retrying)
    @Locked('endpoint')
    retriedObservable(): Observable<string> {
      return defer(() => this.flaky());
    }

    @Get('retried/listening')
    @UseInterceptors(Retrying)
    @Locked('endpoint')
    retriedListening(): Observable<string> {
      const { signal } = currentLock() ?? {};
      return defer(() => {
        if (signal) listeners.push(getEventListeners(signal, 'abort').length);
        return this.flaky();
      });
    }

    @Get('changing')
    @UseInterceptors(Retrying)
    @Locked((id: string) => id)
    async changing(@Query('id', { transform: () => `id:${(changes += 1)}` }) id: string) {
      expect(currentLock()?.resources).toEqual([id]);
      return this.flaky();
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

    @Get('cached')
    @UseInterceptors(Cached)
    @Locked('endpoint')
    async cached(): Promise<string> {
      return 'fresh';
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

    @Get('value')
    @Locked('endpoint')
    value(): Observable<string> {
      return of('value');
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

    private async flaky(): Promise<string> {
      this.tries += 1;
      if (this.tries < 3) throw new Error('flaky');
      return `try ${this.tries}`;
    }
  }

  async function start() {
    const { url, application } = await startServer({ controllers: [Endpoints] }, {}, nodes);
    const redlock = application.get(RedlockService);
    return {
      url,
      redlock,
      endpoints: application.get(Endpoints),
      isFree: async () => (await redlock.inspect('endpoint')).state === 'free',
      freed: async () => {
        await (await redlock.acquire('endpoint', 1_000, { wait: 5_000 })).release();
      },
    };
  }

  it('answers with what its Observable emits', async () => {
    const { url, isFree } = await start();

    expect(await get(url, '/value')).toMatchObject({ status: 200, body: 'value' });
    expect(await isFree()).toBe(true);
  });

  it('holds its lock until server-sent events are over, or the client is gone', async () => {
    const { url, isFree, freed } = await start();
    const client = new AbortController();
    feed.events = new Subject();
    const response = await fetch(`${url}/events`, { signal: client.signal });
    const reader = response.body?.getReader();
    while (!feed.events.observed) await turn();
    feed.events.next({ data: 'one' });
    await reader?.read();
    expect(await isFree()).toBe(false);

    client.abort();

    await freed();
    expect(feed.events.observed).toBe(false);
  });

  it('sends each event as soon as it is there', async () => {
    const { url } = await start();
    const client = new AbortController();
    feed.events = new Subject();
    const response = await fetch(`${url}/events`, { signal: client.signal });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    while (!feed.events.observed) await turn();

    feed.events.next({ data: 'one' });
    let received = '';
    while (!received.includes('data: one')) received += (await reader?.read())?.value ?? '';

    expect(feed.events.observed).toBe(true);
    client.abort();
  });

  it.each([
    ['several come at a time', '/burst', ['one', 'two', 'three']],
    ['an error comes with it', '/events/failing', ['one', 'Internal server error']],
  ])('sends each event once where %s', async (_case, path, expected) => {
    const { url } = await start();

    const { body } = await get(url, path);

    const events = [...body.matchAll(/^data: (.*)$/gm)].map(([, data]) => data);
    expect(events).toEqual(expected);
  });

  it('holds its lock until the file is sent', async () => {
    const { url, isFree, freed } = await start();
    feed.stream = new Readable({ read: () => {} });
    feed.stream.push('first');
    const response = await fetch(`${url}/file`);
    const reader = response.body?.getReader();
    await reader?.read();
    expect(await isFree()).toBe(false);

    feed.stream.push(null);

    expect((await reader?.read())?.done).toBe(true);
    await freed();
  });

  it('releases while a handler with @Res() still writes, unless it waits for that', async () => {
    const { url, isFree, freed } = await start();
    const begin = async (path: string) => {
      feed.stream = new Readable({ read: () => {} });
      feed.stream.push('first');
      const reader = (await fetch(url + path)).body?.getReader();
      await reader?.read();
      return async () => {
        feed.stream.push(null);
        while ((await reader?.read())?.done === false) await turn();
      };
    };

    const endPiped = await begin('/piped');
    await freed();
    expect(feed.stream.readableEnded).toBe(false);
    await endPiped();
    const endAwaited = await begin('/piped-to-the-end');
    expect(await isFree()).toBe(false);
    await endAwaited();

    await freed();
  });

  it('releases when the client breaks off a download', async () => {
    const { url, freed } = await start();
    const client = new AbortController();
    feed.stream = new Readable({ read: () => {} });
    feed.stream.push('first');
    const response = await fetch(`${url}/file`, { signal: client.signal });
    await response.body?.getReader().read();

    client.abort();

    await freed();
  });

  it('keeps its lock while the handler runs, also after a timeout answered for it', async () => {
    const { url, isFree, freed } = await start();

    const { status } = await get(url, '/slow');
    expect([status, await isFree()]).toEqual([404, false]);
    gates.leave.open();
    await gates.left.passed;

    await freed();
  });

  it('runs nothing inside for a response that was dropped in the moment its lock came', async () => {
    const drop = new Subject<void>();
    const outer: NestInterceptor = {
      intercept: (_context, next) => next.handle().pipe(takeUntil(drop)),
    };
    const metadata = {
      controllers: [Endpoints],
      providers: [{ provide: APP_INTERCEPTOR, useValue: outer }],
    };
    const { url, application } = await startServer(metadata);
    const redlock = application.get(RedlockService);
    const before = answersFromCache;
    const onAcquired = (): void => drop.next();
    subscribe('nestjs-locked:acquire', onAcquired);
    afterTest(() => unsubscribe('nestjs-locked:acquire', onAcquired));

    await get(url, '/cached');
    while ((await redlock.status()).held > 0) await turn();

    expect(answersFromCache).toBe(before);
  });

  it('does not run a handler whose response was over before its lock came', async () => {
    const { url, redlock, endpoints, freed } = await start();

    await redlock.using('endpoint', async () => {
      expect((await get(url, '/queued')).status).toBe(404);
      while ((await redlock.status()).waiting > 0) await turn();
    });
    await freed();

    expect(endpoints.tries).toBe(0);
  });

  it.each(['literal', 'arguments', 'observable'])(
    'lets an inner interceptor retry the handler under the same lock: %s',
    async (kind) => {
      const { url, isFree } = await start();

      expect(await get(url, `/retried/${kind}`)).toMatchObject({ status: 200, body: 'try 3' });
      expect(await isFree()).toBe(true);
    },
  );

  it('gathers no listeners on the lock with the tries of an Observable', async () => {
    const { url } = await start();

    await get(url, '/retried/listening');

    const [first] = listeners;
    expect(listeners).toEqual([first, first, first]);
  });

  it('locks anew when a retried handler gets other arguments', async () => {
    const { url, redlock } = await start();

    expect(await get(url, '/changing?id=x')).toMatchObject({ status: 200, body: 'try 3' });
    expect((await redlock.status()).held).toBe(0);
  });

  it.each(['again', 'againBy'])('refuses a handler that calls itself: %s', async (name) => {
    const { url } = await start();

    expect((await get(url, `/${name}`)).body).toContain(`LockReentryError: Endpoints.${name} asks`);
  });

  it.each(['literal', 'arguments'])(
    'leaves the async context of inner interceptors to the handler: %s',
    async (kind) => {
      const { url } = await start();

      expect((await get(url, `/context/${kind}`)).body).toBe('transaction, endpoint');
    },
  );

  it('asks fromContext once for each call', async () => {
    const { url } = await start();

    expect((await get(url, '/named')).body).toBe('["naming:1"]');
    expect((await get(url, '/named')).body).toBe('["naming:2"]');
  });

  it('does not answer with what a synchronous handler returned', async () => {
    const { url, isFree } = await start();

    expect((await get(url, '/synchronous')).status).toBe(500);
    expect(await isFree()).toBe(true);
  });

  it('releases when an inner interceptor answers without the handler', async () => {
    const { url, isFree } = await start();

    expect((await get(url, '/cached')).body).toBe('cached');
    expect(await isFree()).toBe(true);
  });

  it('skips or falls back with the arguments that the pipes made', async () => {
    const { url, redlock } = await start();
    const paths = ['/skip', '/fallback/7', '/fallback-by/7'];
    const ask = async () => Promise.all(paths.map(async (path) => (await get(url, path)).body));

    const taken = await redlock.using('endpoint', ask);
    const free = [];
    for (const path of paths) free.push((await get(url, path)).body);

    expect(taken).toEqual(['', 'no 8', 'no 7']);
    expect(free).toEqual(['ran', 'yes 7', 'yes 7']);
  });
});

describe("a @Locked endpoint that says 'skip' or falls back", () => {
  @Controller()
  class Orders {
    readonly redlock: RedlockService;
    constructor(redlock: RedlockService) {
      this.redlock = redlock;
    }

    @Get('literal')
    @Locked('mine', { wait: 0, onTaken: 'skip' })
    async literal(): Promise<string | undefined> {
      return this.work();
    }

    @Get('context')
    @Locked(fromContext(() => 'mine'), { wait: 0, onTaken: () => 'fallen back' })
    async context(): Promise<string> {
      return this.work();
    }

    @Get('arguments')
    @Locked(() => 'mine', { wait: 0, onTaken: 'skip' })
    async arguments(): Promise<string | undefined> {
      return this.work();
    }

    @Get('observable')
    @Locked('mine', { wait: 0, onTaken: 'skip' })
    observable(): Observable<string | undefined> {
      return defer(() => this.work());
    }

    private work(): Promise<string> {
      return this.redlock.using('other', { wait: 0 }, () => 'done');
    }
  }

  it.each(['literal', 'context', 'arguments', 'observable'])(
    'does so for its own lock, and tells of others that its body finds taken: %s',
    async (path) => {
      const { url, application } = await startServer({ controllers: [Orders] }, {}, threeNodes());
      const redlock = application.get(RedlockService);

      const own = await redlock.using('mine', () => get(url, `/${path}`));
      const other = await redlock.using('other', () => get(url, `/${path}`));

      expect(own).toMatchObject({ status: 200, body: path === 'context' ? 'fallen back' : '' });
      expect(other.status).toBe(423);
      expect(JSON.parse(other.body)).toMatchObject({ error: 'LOCK_TAKEN' });
    },
  );
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

describe('a @Locked endpoint whose lock is lost', () => {
  it('before its handler begins answers 500, and the handler does not run', async () => {
    const environment = new SimulatedEnvironment();
    let runs = 0;
    @Controller()
    class Late {
      @Get(':id')
      @Locked('late')
      async run(@Param('id', { transform: () => environment.block(20_000) }) _id: unknown) {
        runs += 1;
      }
    }
    const { url } = await startServer({ controllers: [Late] }, { environment });

    const { status, body } = await get(url, '/1');

    expect(status).toBe(500);
    expect(JSON.parse(body)).toMatchObject({ error: 'LOCK_LOST' });
    expect(runs).toBe(0);
  });

  it('answers 500 although the handler succeeded, as its result is in doubt', async () => {
    const nodes = faultyNodes();
    const caught: unknown[] = [];
    @Catch()
    class Filter extends BaseExceptionFilter {
      override catch(exception: Error, host: ArgumentsHost): void {
        caught.push(exception.cause);
        super.catch(exception, host);
      }
    }
    @Controller()
    class Losing {
      @Get()
      @Locked('lost')
      async run(): Promise<string> {
        await loseLock(nodes, currentLock());
        return 'too late';
      }
    }
    const providers = [{ provide: APP_FILTER, useClass: Filter }];
    const { url } = await startServer({ controllers: [Losing], providers }, {}, nodes);

    const { status, body } = await get(url, '/');

    expect(status).toBe(500);
    expect(JSON.parse(body)).toMatchObject({ error: 'LOCK_LOST' });
    expect(caught).toMatchObject([{ code: 'LOCK_LOST', result: 'too late' }]);
  });
});
