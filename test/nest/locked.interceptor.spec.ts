/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// `@Locked` endpoints over real HTTP: decorator orders, guards, the order of interceptors, and
// how long the lock lasts.
import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { getEventListeners } from 'node:events';
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { gzipSync } from 'node:zlib';

import { describe, expect, it, jest } from '@jest/globals';
import {
  Catch,
  Controller,
  Get,
  HttpCode,
  Injectable,
  Module,
  NotFoundException,
  Param,
  ParseIntPipe,
  Post,
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
  type ModuleMetadata,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { APP_FILTER, APP_INTERCEPTOR, BaseExceptionFilter, Reflector } from '@nestjs/core';
import { MessagePattern } from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import {
  currentLock,
  fromContext,
  Locked,
  LockedInterceptor,
  RedlockModule,
  RedlockService,
} from 'nestjs-locked';
import {
  catchError,
  concat,
  concatMap,
  defer,
  firstValueFrom,
  from,
  map,
  merge,
  Observable,
  of,
  Subject,
  throwError,
  timer,
} from 'rxjs';
import { finalize, mergeMap, raceWith, retry, takeUntil } from 'rxjs/operators';

import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { Log, startPlainServer, startServer, threeNodes } from './support/applications.js';
import { faultyNodes, loseLock } from './support/faulty-nodes.js';
import { Gate, queryOf, rejection, turn } from './support/events.js';
import { startGateways } from './support/gateway-service.js';
import { startTcpService } from './support/tcp-service.js';

interface Request {
  readonly params: Record<string, string>;
  readonly headers: Record<string, string>;
}

function requestOf(context: ExecutionContext): Request {
  return context.switchToHttp().getRequest<Request>();
}

async function get(url: string, path: string, init?: RequestInit) {
  const response = await fetch(url + path, init);
  return { status: response.status, body: await response.text(), headers: response.headers };
}

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

/** Writes down who did what, and whether the lock was held then. */
const journal: string[] = [];

function note(redlock: RedlockService, what: string): Promise<void> {
  return redlock.inspect('order:7').then(({ state }) => {
    journal.push(`${what} ${state}`);
  });
}

@Injectable()
class Transaction implements NestInterceptor {
  readonly redlock: RedlockService;
  constructor(redlock: RedlockService) {
    this.redlock = redlock;
  }

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return defer(() => note(this.redlock, 'begin')).pipe(
      mergeMap(() => next.handle()),
      concatMap((value: unknown) => note(this.redlock, 'commit').then(() => value)),
      catchError((error: unknown) =>
        defer(() => note(this.redlock, 'rollback')).pipe(
          map(() => {
            throw error;
          }),
        ),
      ),
    );
  }
}

/** An interceptor that tries a call that failed once more, after `between`. */
function retriesAfter(between: () => Promise<unknown>): Type<NestInterceptor> {
  @Injectable()
  class Retrying implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return next.handle().pipe(retry({ count: 1, delay: between }));
    }
  }
  return Retrying;
}

/** Wraps a method, as many applications' own decorators do: what others keep on it is lost. */
function Forgetful(): MethodDecorator {
  return (_target, _key, descriptor) => {
    const method = descriptor.value as (...args: unknown[]) => Promise<unknown>;
    const wrapper = async function (this: unknown, ...args: unknown[]): Promise<unknown> {
      return method.apply(this, args);
    };
    Object.assign(descriptor, { value: wrapper });
  };
}

describe('the transaction around a @Locked handler', () => {
  @Controller()
  @UseInterceptors(Transaction)
  class Orders {
    readonly redlock: RedlockService;
    constructor(redlock: RedlockService) {
      this.redlock = redlock;
    }

    @Post('literal/:id')
    @Locked('order:7')
    async literal(): Promise<string> {
      await note(this.redlock, 'handler');
      return 'done';
    }

    @Post('context/:id')
    @Locked(fromContext((context) => `order:${requestOf(context).params.id}`))
    async context(): Promise<string> {
      await note(this.redlock, 'handler');
      return 'done';
    }

    @Post('wrapped/:id')
    @Forgetful()
    @Locked('order:7')
    async wrapped(): Promise<string> {
      await note(this.redlock, 'handler');
      return 'done';
    }

    @Post('wrapped-context/:id')
    @Forgetful()
    @Locked(fromContext((context) => `order:${requestOf(context).params.id}`))
    async wrappedContext(): Promise<string> {
      await note(this.redlock, 'handler');
      return 'done';
    }

    @Post('arguments/:id')
    @Locked((id: string) => `order:${id}`)
    async arguments(@Param('id') _id: string): Promise<string> {
      await note(this.redlock, 'handler');
      return 'done';
    }

    @Post('failing/:id')
    @Locked((id: string) => `order:${id}`)
    async failing(@Param('id') _id: string): Promise<string> {
      throw new NotFoundException('no such order');
    }
  }

  it.each([
    ['literal', ['begin held', 'handler held', 'commit held']],
    ['context', ['begin held', 'handler held', 'commit held']],
    ['wrapped', ['begin held', 'handler held', 'commit held']],
    ['wrapped-context', ['begin held', 'handler held', 'commit held']],
    ['arguments', ['begin free', 'handler held', 'commit held']],
  ])('commits inside the lock of a %s resource', async (path, expected) => {
    journal.length = 0;
    const { url, application } = await startServer({ controllers: [Orders] });

    const { status, body } = await get(url, `/${path}/7`, { method: 'POST' });

    expect([status, body]).toEqual([201, 'done']);
    expect(journal).toEqual(expected);
    expect(await application.get(RedlockService).inspect('order:7')).toMatchObject({
      state: 'free',
    });
  });

  it.each(['literal', 'wrapped', 'wrapped-context'])(
    'commits inside the lock of an inherited handler: %s',
    async (path) => {
      journal.length = 0;
      @Controller()
      class InheritedOrders extends Orders {}
      const { url } = await startServer({ controllers: [InheritedOrders] });

      const { status, body } = await get(url, `/${path}/7`, { method: 'POST' });

      expect([status, body]).toEqual([201, 'done']);
      expect(journal).toEqual(['begin held', 'handler held', 'commit held']);
    },
  );

  it.each(['literal', 'context'])(
    'commits inside the lock of a handler that the constructor has bound: %s',
    async (path) => {
      journal.length = 0;
      @Controller()
      class BoundOrders extends Orders {
        constructor(redlock: RedlockService) {
          super(redlock);
          this.literal = this.literal.bind(this);
          this.context = this.context.bind(this).bind(this);
        }
      }
      const { url } = await startServer({ controllers: [BoundOrders] });

      const { status, body } = await get(url, `/${path}/7`, { method: 'POST' });

      expect([status, body]).toEqual([201, 'done']);
      expect(journal).toEqual(['begin held', 'handler held', 'commit held']);
    },
  );

  it('rolls back inside the lock, and the error is the very one', async () => {
    journal.length = 0;
    const { url, application } = await startServer({ controllers: [Orders] });

    const { status, body } = await get(url, '/failing/7', { method: 'POST' });

    expect([status, JSON.parse(body)]).toEqual([
      404,
      expect.objectContaining({ message: 'no such order' }),
    ]);
    expect(journal).toEqual(['begin free', 'rollback held']);
    expect((await application.get(RedlockService).status()).held).toBe(0);
  });

  it('commits inside the lock of a retry whose first try found it taken', async () => {
    journal.length = 0;
    let release = (): Promise<void> => Promise.resolve();
    const Patient = retriesAfter(() => release());
    @Controller()
    @UseInterceptors(Transaction, Patient)
    class Retried {
      @Post(':id')
      @Locked((id: string) => `order:${id}`, { wait: 0 })
      async pay(@Param('id') _id: string): Promise<string> {
        return 'done';
      }
    }
    const { url, application } = await startServer({ controllers: [Retried] });
    const others = await application.get(RedlockService).acquire('order:7');
    release = () => others.release();

    const { body } = await get(url, '/7', { method: 'POST' });

    expect(body).toBe('done');
    // At the beginning others still held it.
    expect(journal).toEqual(['begin held', 'commit held']);
  });

  it.each(['literal', 'arguments'])(
    'commits inside the lock of a retry after an onTaken that throws: %s',
    async (path) => {
      journal.length = 0;
      let release = (): Promise<void> => Promise.resolve();
      const busy = (): never => {
        throw new NotFoundException('busy');
      };
      const Patient = retriesAfter(() => release());
      @Controller()
      @UseInterceptors(Transaction, Patient)
      class Retried {
        @Post('literal/:id')
        @Locked('order:7', { wait: 0, onTaken: busy })
        async literal(): Promise<string> {
          return 'done';
        }

        @Post('arguments/:id')
        @Locked((id: string) => `order:${id}`, { wait: 0, onTaken: busy })
        async arguments(@Param('id') _id: string): Promise<string> {
          return 'done';
        }
      }
      const { url, application } = await startServer({ controllers: [Retried] });
      const others = await application.get(RedlockService).acquire('order:7');
      release = () => others.release();

      const { body } = await get(url, `/${path}/7`, { method: 'POST' });

      expect(body).toBe('done');
      expect(journal).toEqual(['begin held', 'commit held']);
    },
  );

  it('is outside a lock that the handler takes itself when the interceptor is off', async () => {
    journal.length = 0;
    const { url } = await startServer({ controllers: [Orders] }, { interceptor: false });

    expect((await get(url, '/literal/7', { method: 'POST' })).status).toBe(201);
    expect(journal).toEqual(['begin free', 'handler held', 'commit free']);
  });

  it('needs the interceptor for fromContext, and says so', async () => {
    journal.length = 0;
    const { url } = await startServer({ controllers: [Orders] }, { interceptor: false });

    expect((await get(url, '/context/7', { method: 'POST' })).status).toBe(500);
    expect(journal).toEqual(['begin free', 'rollback free']);
  });

  it('is in the lock of an interceptor bound by hand', async () => {
    journal.length = 0;
    @Controller()
    @UseInterceptors(LockedInterceptor, Transaction)
    class ByHand {
      @Post('by-hand/:id')
      @Locked('order:7')
      async literal(): Promise<string> {
        return 'done';
      }
    }
    const { url } = await startServer({ controllers: [ByHand] }, { interceptor: false });

    expect((await get(url, '/by-hand/7', { method: 'POST' })).status).toBe(201);
    expect(journal).toEqual(['begin held', 'commit held']);
  });
});

describe('a @Locked endpoint that an outer interceptor retries', () => {
  let failures = 0;
  let between = (): Promise<unknown> => Promise.resolve();
  let firstVisit = new Gate();

  const Retrying = retriesAfter(() => between());

  @Injectable()
  class Impatient implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const tooLate = timer(20).pipe(mergeMap(() => throwError(() => new Error('too late'))));
      return next.handle().pipe(raceWith(tooLate));
    }
  }

  @Controller()
  class Orders {
    @Post('literal/:id')
    @UseInterceptors(Transaction)
    @Locked('order:7', { wait: 0 })
    async literal(): Promise<unknown> {
      return this.flaky();
    }

    @Post('context/:id')
    @UseInterceptors(Transaction)
    @Locked(fromContext((context) => `order:${requestOf(context).params.id}`), { wait: 0 })
    async context(): Promise<unknown> {
      return this.flaky();
    }

    @Post('arguments/:id')
    @UseInterceptors(Transaction)
    @Locked((id: string) => `order:${id}`, { wait: 0 })
    async arguments(@Param('id') _id: string): Promise<unknown> {
      return this.flaky();
    }

    @Post('slow')
    @UseInterceptors(Impatient)
    @Locked('order:7', { wait: 5_000 })
    async slow(): Promise<unknown> {
      if ((failures -= 1) < 0) return `after ${journal.join()}`;
      await firstVisit.passed;
      journal.push('the first');
      return 'unheard';
    }

    private async flaky(): Promise<unknown> {
      if ((failures -= 1) >= 0) throw new Error('flaky');
      return currentLock()?.resources;
    }
  }

  async function start() {
    journal.length = 0;
    failures = 0;
    between = () => Promise.resolve();
    const { url, application } = await startServer({
      controllers: [Orders],
      providers: [{ provide: APP_INTERCEPTOR, useClass: Retrying }],
    });
    return { url, redlock: application.get(RedlockService) };
  }

  it.each([
    ['literal', 'begin held'],
    ['context', 'begin held'],
    ['arguments', 'begin free'],
  ])('is locked at each try: %s', async (path, begin) => {
    const { url, redlock } = await start();
    failures = 1;

    const { body } = await get(url, `/${path}/7`, { method: 'POST' });

    expect(body).toBe('["order:7"]');
    expect(journal).toEqual([begin, 'rollback held', begin, 'commit held']);
    expect((await redlock.inspect('order:7')).state).toBe('free');
  });

  it.each(['literal', 'context', 'arguments'])(
    'runs as soon as its lock is free: %s',
    async (path) => {
      const { url, redlock } = await start();
      const others = await redlock.acquire('order:7');
      between = () => others.release();

      const { body } = await get(url, `/${path}/7`, { method: 'POST' });

      expect(body).toBe('["order:7"]');
      expect(journal.at(-1)).toBe('commit held');
    },
  );

  it.each(['literal', 'context', 'arguments'])(
    'answers 423 where its lock stays taken: %s',
    async (path) => {
      const { url, redlock } = await start();
      await using others = await redlock.acquire('order:7');

      const { status } = await get(url, `/${path}/7`, { method: 'POST' });

      expect(status).toBe(423);
      expect(others.isValid).toBe(true);
    },
  );

  it('waits for a try that goes on after an inner timeout', async () => {
    const { url, redlock } = await start();
    failures = 1;
    firstVisit = new Gate();

    const answer = get(url, '/slow', { method: 'POST' });
    await eventually(async () => (await redlock.status()).waiting > 0);
    firstVisit.open();

    expect(await answer).toMatchObject({ status: 201, body: 'after the first' });
  });
});

describe('a transaction that a global interceptor opens around a @Locked handler', () => {
  const provider = { provide: APP_INTERCEPTOR, useClass: Transaction };
  @Module({ providers: [provider] })
  class Transactions {}

  @Controller()
  class Orders {
    @Post()
    @Locked('order:7')
    async pay(): Promise<void> {}
  }

  /** What the transaction saw, in an application of this root module. */
  async function seenIn(root: ModuleMetadata, isBoundByHand = false): Promise<readonly string[]> {
    journal.length = 0;
    const { url } = await startPlainServer(
      { controllers: [Orders], ...root },
      {
        configure: (application) => {
          if (isBoundByHand) application.useGlobalInterceptors(application.get(Transaction));
        },
      },
    );
    await get(url, '/', { method: 'POST' });
    return journal;
  }

  it('commits inside the lock where its module is imported after RedlockModule', async () => {
    const imports = [RedlockModule.forRoot(threeNodes()), Transactions];

    expect(await seenIn({ imports })).toEqual(['begin held', 'commit held']);
  });

  it('commits inside the lock where useGlobalInterceptors binds it', async () => {
    const root = { imports: [RedlockModule.forRoot(threeNodes())], providers: [Transaction] };

    expect(await seenIn(root, true)).toEqual(['begin held', 'commit held']);
  });

  it.each<[string, () => ModuleMetadata]>([
    [
      'the root module provides it',
      () => ({ imports: [RedlockModule.forRoot(threeNodes())], providers: [provider] }),
    ],
    [
      'its module is imported before RedlockModule',
      () => ({ imports: [Transactions, RedlockModule.forRoot(threeNodes())] }),
    ],
  ])('commits after the release where %s', async (_where, root) => {
    expect(await seenIn(root())).toEqual(['begin free', 'commit free']);
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

describe('a @Locked endpoint that is an async generator', () => {
  /** Outside of the scope, as what streams the response: Nest 12 does so itself. */
  @Injectable()
  class Streaming implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return next
        .handle()
        .pipe(map((rows: AsyncIterable<string>) => new StreamableFile(Readable.from(rows))));
    }
  }

  @Controller()
  class Rows {
    readonly redlock: RedlockService;
    constructor(redlock: RedlockService) {
      this.redlock = redlock;
    }

    @Get('literal/:id')
    @Locked('rows:7', { wait: 0 })
    async *literal(): AsyncGenerator<string> {
      yield* this.rows();
    }

    @Get('context/:id')
    @Locked(fromContext((context) => `rows:${requestOf(context).params.id}`), { wait: 0 })
    async *context(): AsyncGenerator<string> {
      yield* this.rows();
    }

    @Get('arguments/:id')
    @Locked((id: string) => `rows:${id}`, { wait: 0 })
    async *arguments(@Param('id') _id: string): AsyncGenerator<string> {
      yield* this.rows();
    }

    @Get('skipping/:id')
    @Locked('rows:7', { wait: 0, onTaken: 'skip' })
    async *skipping(): AsyncGenerator<string, undefined> {
      yield* this.rows();
      return undefined;
    }

    private async *rows(): AsyncGenerator<string> {
      for (let row = 0; row < 2; row += 1) {
        await turn();
        yield `${(await this.redlock.inspect('rows:7')).state} ${String(currentLock()?.resources)}, `;
      }
    }
  }

  async function start() {
    let acquired = 0;
    const onAcquired = (): void => void (acquired += 1);
    subscribe('nestjs-locked:acquire', onAcquired);
    afterTest(() => unsubscribe('nestjs-locked:acquire', onAcquired));
    const { url, application } = await startServer({
      controllers: [Rows],
      providers: [{ provide: APP_INTERCEPTOR, useClass: Streaming }],
    });
    return { url, redlock: application.get(RedlockService), acquired: () => acquired };
  }

  it.each(['literal', 'context', 'arguments', 'skipping'])(
    'is locked once, from the call to its last row: %s',
    async (path) => {
      const { url, redlock, acquired } = await start();

      const { body } = await get(url, `/${path}/7`);

      expect(body).toBe('held rows:7, held rows:7, ');
      expect(acquired()).toBe(1);
      expect((await redlock.inspect('rows:7')).state).toBe('free');
    },
  );

  it.each(['literal', 'context', 'arguments'])(
    'answers 423 where its lock is taken: %s',
    async (path) => {
      const { url, redlock } = await start();
      await using others = await redlock.acquire('rows:7');

      expect((await get(url, `/${path}/7`)).status).toBe(423);
      expect(others.isValid).toBe(true);
    },
  );

  const build = (controllers: Type[], providers: Type[] = []) =>
    Test.createTestingModule({
      imports: [RedlockModule.forRoot(threeNodes(), { shutdownTimeout: 0 })],
      controllers,
      providers,
    })
      .setLogger(new Log())
      .compile();

  const whenFree = (redlock: RedlockService): Promise<void> =>
    eventually(async () => (await redlock.inspect('rows')).state === 'free', 2_000);

  it('releases when nobody takes a step, as its response has failed', async () => {
    const failing: NestInterceptor = {
      intercept: (_context, next) => next.handle().pipe(mergeMap(() => throwError(() => 'failed'))),
    };
    // A microservice: over HTTP Nest 12 ends what handlers made, other than Nest 11.
    @Controller()
    class Feed {
      @MessagePattern('rows')
      @UseInterceptors(failing)
      @Locked('rows')
      async *rows(): AsyncGenerator<string> {
        yield 'row';
      }
    }
    const { service, client, close } = await startTcpService(await build([Feed]));
    afterTest(close);

    await rejection(firstValueFrom(client.send('rows', {})));

    await whenFree(service.get(RedlockService));
  });

  it('releases when nobody takes a step, as microservices and gateways do not', async () => {
    @Controller()
    @WebSocketGateway()
    class Feed {
      @MessagePattern('rows')
      @Locked('rows')
      async *rows(): AsyncGenerator<string> {
        yield 'row';
      }

      @SubscribeMessage('rows')
      @UseInterceptors(LockedInterceptor)
      @Locked('rows')
      async *told(): AsyncGenerator<string> {
        yield 'row';
      }
    }
    const { service, client, close } = await startTcpService(await build([Feed]));
    afterTest(close);
    const gateways = await startGateways(await build([], [Feed]));

    await firstValueFrom(client.send('rows', {}));
    await gateways.ask('rows', {});

    await whenFree(service.get(RedlockService));
    await whenFree(gateways.redlock);
  });

  it("gives nothing where its lock is taken and onTaken says 'skip'", async () => {
    const { url, redlock } = await start();
    await using others = await redlock.acquire('rows:7');

    expect(await get(url, '/skipping/7')).toMatchObject({ status: 200, body: '' });
    expect(others.isValid).toBe(true);
  });
});

describe('a @Locked endpoint that answers with a stream', () => {
  let redlock: RedlockService;
  let states: string[] = [];
  let files: Readable[] = [];
  let leave = new Gate();

  /** Rows that say whether the export was locked when they were read. */
  async function* rows(): AsyncGenerator<Uint8Array> {
    for (let row = 0; row < 2; row += 1) {
      await turn();
      states.push((await redlock.inspect('export')).state);
      yield new TextEncoder().encode(`row ${row}, `);
    }
  }

  const file = () => new StreamableFile(Readable.from(rows()));

  /** A StreamableFile of another copy of Nest: nobody but us ends it where it is not sent. */
  const foreignFile = () => {
    const stream = Readable.from(rows());
    files.push(stream);
    return { getStream: () => stream, getHeaders: () => ({}), setErrorHandler: () => {} };
  };

  /** Changes the answer of the handler. */
  const answering = (change: (answer: unknown) => unknown): NestInterceptor => ({
    intercept: (_context, next) => next.handle().pipe(map(change)),
  });

  /** For Nest 11, which sends no web streams. Outside of the scope. */
  const sending = answering((answer) =>
    answer instanceof Response && answer.body !== null
      ? new StreamableFile(Readable.from(answer.body))
      : answer,
  );

  const failing = answering(() => {
    throw new NotFoundException('in the commit');
  });

  const impatient: NestInterceptor = {
    intercept: (_context, next) => next.handle().pipe(raceWith(timer(20).pipe(mergeMap(tooLate)))),
  };
  const tooLate = () => throwError(() => new NotFoundException('too late'));

  @Controller()
  class Exports {
    @Get('observable')
    @Locked('export')
    observable(): Observable<StreamableFile> {
      return of(file());
    }

    @Get('later')
    @Locked('export')
    async later(): Promise<Observable<StreamableFile>> {
      return of(file());
    }

    @Get('mapped')
    @UseInterceptors(answering(file))
    @Locked('export')
    async mapped(): Promise<string> {
      return 'rows';
    }

    @Get('response')
    @Locked('export')
    async response(): Promise<Response> {
      return new Response(ReadableStream.from(rows()));
    }

    @Get('foreign-response')
    @Locked('export')
    async foreignResponse(): Promise<unknown> {
      const { status, headers, body } = new Response(ReadableStream.from(rows()));
      // As that of the package undici: another class by the same name.
      return { status, headers, body, [Symbol.toStringTag]: 'Response' };
    }

    @Get('failing')
    @UseInterceptors(failing)
    @Locked('export')
    async failing(): Promise<unknown> {
      return foreignFile();
    }

    @Get('replaced')
    @UseInterceptors(answering(() => 'nothing new'))
    @Locked('export')
    async replaced(): Promise<unknown> {
      return foreignFile();
    }

    @Get('late')
    @UseInterceptors(impatient)
    @Locked('export')
    async late(): Promise<unknown> {
      await leave.passed;
      return foreignFile();
    }

    @Get('late-feed')
    @UseInterceptors(impatient)
    @Locked('export')
    async lateFeed(): Promise<Observable<string>> {
      await leave.passed;
      return of('row');
    }

    @Get('rewritten')
    @UseInterceptors(
      answering((answer) => {
        const source = (answer as StreamableFile).getStream();
        return new StreamableFile(Readable.from(source));
      }),
    )
    @Locked('export')
    async rewritten(): Promise<unknown> {
      return foreignFile();
    }
  }

  async function start(controllers: Type[] = [Exports]): Promise<string> {
    states = [];
    files = [];
    leave = new Gate();
    const providers = [{ provide: APP_INTERCEPTOR, useValue: sending }];
    const { url, application } = await startServer({ controllers, providers });
    redlock = application.get(RedlockService);
    return url;
  }

  const freed = () =>
    eventually(async () => (await redlock.inspect('export')).state === 'free', 2_000);

  it.each(['observable', 'later', 'mapped', 'response', 'foreign-response', 'rewritten'])(
    'is locked until that is sent: %s',
    async (path) => {
      const url = await start();

      expect((await get(url, `/${path}`)).body).toBe('row 0, row 1, ');
      expect(states).toEqual(['held', 'held']);
      await freed();
    },
  );

  it.each([
    ['failing', 404],
    ['replaced', 200],
  ])('ends a stream that is not sent, and its lock: %s', async (path, status) => {
    const url = await start();

    expect((await get(url, `/${path}`)).status).toBe(status);

    await freed();
    expect(files.map(({ destroyed }) => destroyed)).toEqual([true]);
  });

  it('ends a stream that comes when another answer was given, and its lock', async () => {
    const url = await start();
    expect((await get(url, '/late')).status).toBe(404);

    leave.open();

    await freed();
    expect(files.map(({ destroyed }) => destroyed)).toEqual([true]);
  });

  it('ends the lock of an Observable that comes when another answer was given', async () => {
    const url = await start();
    expect((await get(url, '/late-feed')).status).toBe(404);

    leave.open();

    await freed();
  });

  it('ends that lock of another copy of the package too, such as ESM and CJS', async () => {
    jest.resetModules();
    const copy = await import('nestjs-locked');
    @Controller()
    class Feed {
      @Get('feed')
      @UseInterceptors(impatient)
      @copy.Locked('export')
      async feed(): Promise<Observable<string>> {
        await leave.passed;
        return of('row');
      }
    }
    const url = await start([Feed]);
    expect((await get(url, '/feed')).status).toBe(404);

    leave.open();

    await freed();
  });

  it.each(['response', 'stream'])(
    'cancels what a client that has gone will not read, and logs nothing: %s',
    async (path) => {
      let isCancelled = false;
      const source = () => new ReadableStream({ cancel: () => void (isCancelled = true) });
      let onStart: (response: ServerResponse) => void = () => {};
      const started = new Promise<ServerResponse>((resolve) => (onStart = resolve));
      @Controller()
      class Leaving {
        @Get('response')
        @Locked('export')
        async response(@Res({ passthrough: true }) response: ServerResponse): Promise<Response> {
          onStart(response);
          await leave.passed;
          return new Response(source());
        }

        @Get('stream')
        @Locked('export')
        async stream(@Res({ passthrough: true }) response: ServerResponse): Promise<unknown> {
          onStart(response);
          await leave.passed;
          return source();
        }
      }
      leave = new Gate();
      const log = new Log();
      const server = await startServer({ controllers: [Leaving] }, {}, threeNodes(), log);
      redlock = server.application.get(RedlockService);
      const client = new AbortController();
      const fetched = rejection(fetch(`${server.url}/${path}`, { signal: client.signal }));
      const response = await started;
      client.abort();
      await fetched;
      while (!response.closed) await turn();

      leave.open();

      await freed();
      await turn();
      expect(isCancelled).toBe(true);
      expect(log.lines.filter(([level]) => level !== 'log')).toEqual([]);
    },
  );

  it('passes on what it has fetched, decoded', async () => {
    @Controller()
    class Proxy {
      @Get('compressed')
      async compressed(): Promise<Response> {
        const headers = { 'Content-Encoding': 'gzip' };
        return new Response(new Uint8Array(gzipSync('rows')), { headers });
      }

      @Get()
      @Locked('export')
      async fetched(): Promise<Response> {
        return fetch(`${url}/compressed`);
      }
    }
    const { url } = await startServer({ controllers: [Proxy] });

    expect((await get(url, '/')).body).toBe('rows');
  });
});

describe('the answer of a @Locked endpoint', () => {
  it.each(['literal', 'arguments', 'failing'])(
    'waits for the release of its lock: %s',
    async (kind) => {
      const nodes = faultyNodes();
      const hang = (): void => {
        for (const node of nodes) node.hang();
      };
      @Controller()
      class Hanging {
        @Get('literal')
        @Locked('hanging')
        async literal(): Promise<void> {
          hang();
        }

        @Get('arguments')
        @Locked(() => 'hanging')
        async arguments(): Promise<void> {
          hang();
        }

        @Get('failing')
        @Locked('hanging')
        async failing(): Promise<void> {
          hang();
          throw new NotFoundException('nothing here');
        }
      }
      let isAnswered = false;
      const outer: NestInterceptor = {
        intercept: (_context, next) => next.handle().pipe(finalize(() => (isAnswered = true))),
      };
      const providers = [{ provide: APP_INTERCEPTOR, useValue: outer }];
      // Time stands still, so that nobody gives the nodes up.
      const options = { environment: new SimulatedEnvironment() };
      const { url } = await startServer({ controllers: [Hanging], providers }, options, nodes);

      const answer = get(url, `/${kind}`);
      while (nodes.some((node) => node.count('release') === 0)) await turn();
      await turn();
      expect(isAnswered).toBe(false);
      for (const node of nodes) node.heal();

      expect((await answer).status).toBe(kind === 'failing' ? 404 : 200);
    },
  );
});

describe('a handler that is called again by what it has begun', () => {
  const started = { owners: [] as unknown[], again: new Gate(), onEnd: () => {} };

  @Controller()
  class Beginning {
    work: Promise<void> | undefined;

    @Get(':outcome')
    @Locked('begun', { wait: 5_000 })
    async begin(@Param('outcome') outcome: string): Promise<void> {
      started.owners.push(currentLock()?.ownerId);
      if (this.work !== undefined) return;
      this.work = started.again.passed.then(() => this.begin(outcome));
      started.onEnd();
      if (outcome === 'failing') throw new NotFoundException('nothing here');
    }
  }

  it.each(['ending', 'failing'])('locks anew when its response is over: %s', async (outcome) => {
    Object.assign(started, { owners: [], again: new Gate(), onEnd: () => {} });
    const { url, application } = await startServer({ controllers: [Beginning] });
    await get(url, `/${outcome}`);

    started.again.open();
    await application.get(Beginning).work;

    expect(started.owners).toEqual([expect.any(String), expect.any(String)]);
    expect(new Set(started.owners).size).toBe(2);
  });

  it.each(['ending', 'failing'])('locks anew while its lock is released: %s', async (outcome) => {
    const nodes = faultyNodes();
    const onEnd = (): void => {
      for (const node of nodes) node.hang();
    };
    Object.assign(started, { owners: [], again: new Gate(), onEnd });
    // Time stands still, so that nobody gives the nodes up.
    const options = { environment: new SimulatedEnvironment() };
    const { url, application } = await startServer({ controllers: [Beginning] }, options, nodes);
    const answer = get(url, `/${outcome}`);
    while (nodes.some((node) => node.count('release') === 0)) await turn();

    started.again.open();
    await turn();
    for (const node of nodes) node.heal();
    await answer;
    await application.get(Beginning).work;

    expect(started.owners).toEqual([expect.any(String), expect.any(String)]);
    expect(new Set(started.owners).size).toBe(2);
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
