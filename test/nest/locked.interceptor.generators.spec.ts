/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// `@Locked` endpoints that are async generators: how long the lock lasts.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Readable } from 'node:stream';

import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  Param,
  StreamableFile,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
  type Provider,
  type Type,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { MessagePattern } from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import {
  currentLock,
  fromContext,
  Locked,
  LockedInterceptor,
  LockLostError,
  RedlockModule,
  RedlockService,
} from 'nestjs-locked';
import { firstValueFrom, from, lastValueFrom, map, Observable, throwError } from 'rxjs';
import { mergeMap } from 'rxjs/operators';

import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { Log, startServer, threeNodes } from './support/applications.js';
import { Gate, rejection, turn } from './support/events.js';
import { startGateways } from './support/gateway-service.js';
import { startTcpService } from './support/tcp-service.js';
import { requestOf, get } from './support/requests.js';

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

  const build = (controllers: Type[], providers: Provider[] = []) =>
    Test.createTestingModule({
      imports: [RedlockModule.forRoot(threeNodes(), { shutdownTimeout: 0 })],
      controllers,
      providers,
    })
      .setLogger(new Log())
      .compile();

  const startFeed = async (feed: Type, providers: Provider[] = []) => {
    const { service, client, close } = await startTcpService(await build([feed], providers));
    afterTest(close);
    return { client, redlock: service.get(RedlockService) };
  };

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
    const { client, redlock } = await startFeed(Feed);

    await rejection(firstValueFrom(client.send('rows', {})));

    await whenFree(redlock);
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
    const { client, redlock } = await startFeed(Feed);
    const gateways = await startGateways(await build([], [Feed]));

    await firstValueFrom(client.send('rows', {}));
    await gateways.ask('rows', {});

    await whenFree(redlock);
    await whenFree(gateways.redlock);
  });

  it('goes on after the answer of a message handler where an interceptor reads it', async () => {
    const rows: string[] = [];
    const more = new Gate();
    const read = async (from: AsyncIterable<string>): Promise<void> => {
      for await (const row of from) rows.push(row);
    };
    const begin = (from: AsyncIterable<string>): string => {
      void read(from);
      return 'begun';
    };
    const reading: NestInterceptor = {
      intercept: (_context, next) => next.handle().pipe(map(begin)),
    };
    @Controller()
    class Feed {
      @MessagePattern('rows')
      @UseInterceptors(reading)
      @Locked('rows')
      async *rows(): AsyncGenerator<string> {
        yield 'first';
        await more.passed;
        yield* ['next', 'last'];
      }
    }
    const { client, redlock } = await startFeed(Feed);

    expect(await firstValueFrom(client.send('rows', {}))).toBe('begun');
    await turn();
    expect([rows, (await redlock.inspect('rows')).state]).toEqual([['first'], 'held']);
    more.open();

    await whenFree(redlock);
    expect(rows).toEqual(['first', 'next', 'last']);
  });

  const collect = async (next: CallHandler<AsyncIterable<string>>): Promise<string[]> => {
    const rows: string[] = [];
    for await (const row of await lastValueFrom(next.handle())) rows.push(row);
    return rows;
  };

  it('gives all rows to an outer interceptor that awaits the answer before it reads it', async () => {
    const collecting: NestInterceptor<AsyncIterable<string>, string[]> = {
      intercept: (_context, next) => from(collect(next)),
    };
    @Controller()
    class Feed {
      @MessagePattern('rows')
      @Locked('rows')
      async *rows(): AsyncGenerator<string> {
        yield* ['first', 'last'];
      }
    }
    const outer = { provide: APP_INTERCEPTOR, useValue: collecting };
    const { client, redlock } = await startFeed(Feed, [outer]);

    expect(await firstValueFrom(client.send('rows', {}))).toEqual(['first', 'last']);
    await whenFree(redlock);
  });

  it('fails where its lock was lost in the last step, of which no timer has told', async () => {
    const environment = new SimulatedEnvironment();
    const failures: unknown[] = [];
    const collecting: NestInterceptor<AsyncIterable<string>, unknown> = {
      intercept: (_context, next) =>
        from(collect(next).catch((failure: unknown) => failures.push(failure))),
    };
    @Controller()
    class Feed {
      @Get()
      @Locked('rows')
      async *rows(): AsyncGenerator<string> {
        yield 'row';
        environment.block(20_000);
      }
    }
    const providers = [{ provide: APP_INTERCEPTOR, useValue: collecting }];
    const { url } = await startServer({ controllers: [Feed], providers }, { environment });

    await get(url, '/');

    expect(failures).toEqual([expect.any(LockLostError)]);
  });

  it("gives nothing where its lock is taken and onTaken says 'skip'", async () => {
    const { url, redlock } = await start();
    await using others = await redlock.acquire('rows:7');

    expect(await get(url, '/skipping/7')).toMatchObject({ status: 200, body: '' });
    expect(others.isValid).toBe(true);
  });
});
