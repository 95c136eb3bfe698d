// `@Locked` endpoints that are answered for before their handler is: by a timeout, or from a cache.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';

import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  NotFoundException,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { currentLock, Locked, RedlockService, type Lock } from 'nestjs-locked';
import { catchError, from, map, Observable, of, Subject, timer } from 'rxjs';
import { mergeMap, raceWith, takeUntil } from 'rxjs/operators';

import { afterTest } from '../support/after-test.js';
import { startServer } from './support/applications.js';
import { Gate, turn } from './support/events.js';
import { get } from './support/requests.js';
import { startEndpoints } from './support/endpoints.js';

describe('a @Locked endpoint that an inner interceptor answers for', () => {
  const gates = { entered: new Gate(), leave: new Gate(), left: new Gate() };
  let answersFromCache = 0;
  let others: Lock;

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

  /** Gives the call up, lets it have its lock, and tries again. */
  @Injectable()
  class Insisting extends Timeout {
    override intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const again = (): Observable<unknown> =>
        from(others.release()).pipe(mergeMap(() => next.handle()));
      return super.intercept(context, next).pipe(catchError(again));
    }
  }

  @Injectable()
  class Cached implements NestInterceptor {
    intercept(): Observable<unknown> {
      answersFromCache += 1;
      return of('cached');
    }
  }

  @Controller()
  class Endpoints {
    tries = 0;

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

    @Get('queued-again')
    @UseInterceptors(Insisting)
    @Locked(() => 'endpoint', { wait: 2_000 })
    queuedAgain(): Observable<string> {
      return of('ran');
    }

    @Get('cached')
    @UseInterceptors(Cached)
    @Locked('endpoint')
    async cached(): Promise<string> {
      return 'fresh';
    }
  }

  it('keeps its lock while the handler runs, also after a timeout answered for it', async () => {
    const { url, isFree, freed } = await startEndpoints(Endpoints);

    const { status } = await get(url, '/slow');
    expect([status, await isFree()]).toEqual([404, false]);
    gates.leave.open();
    await gates.left.passed;

    await freed();
  });

  it('is over for outer interceptors, although its handler is still at work', async () => {
    const end = new Gate();
    const stale: NestInterceptor = {
      intercept: (_context, next) =>
        next.handle().pipe(raceWith(timer(20).pipe(map(() => 'stale')))),
    };
    const outer: NestInterceptor = {
      intercept: (_context, next) =>
        next
          .handle()
          .pipe(map((answer: unknown) => [answer, currentLock()?.resources ?? 'unlocked'])),
    };
    @Controller()
    class Slow {
      @Get()
      @UseInterceptors(stale)
      @Locked('endpoint')
      async run(): Promise<void> {
        await end.passed;
      }
    }
    const providers = [{ provide: APP_INTERCEPTOR, useValue: outer }];
    const { url } = await startServer({ controllers: [Slow], providers });

    const { body } = await get(url, '/');

    expect(JSON.parse(body)).toEqual(['stale', 'unlocked']);
    end.open();
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
    const { url, redlock, endpoints, freed } = await startEndpoints(Endpoints);

    await redlock.using('endpoint', async () => {
      expect((await get(url, '/queued')).status).toBe(404);
      while ((await redlock.status()).waiting > 0) await turn();
    });
    await freed();

    expect(endpoints.tries).toBe(0);
  });

  it('leaves the queue with a try that was given up, and a later try gets the lock', async () => {
    const { url, redlock } = await startEndpoints(Endpoints);
    others = await redlock.acquire('endpoint');

    expect(await get(url, '/queued-again')).toMatchObject({ status: 200, body: 'ran' });
  });

  it('releases when an inner interceptor answers without the handler', async () => {
    const { url, isFree } = await startEndpoints(Endpoints);

    expect((await get(url, '/cached')).body).toBe('cached');
    expect(await isFree()).toBe(true);
  });
});
