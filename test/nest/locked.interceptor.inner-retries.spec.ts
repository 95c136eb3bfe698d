/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// A handler that an interceptor runs again inside the lock.
import { getEventListeners } from 'node:events';

import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  Query,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { ExternalContextCreator } from '@nestjs/core';
import { currentLock, fromContext, Locked, RedlockService, type Lock } from 'nestjs-locked';
import { defer, NEVER, Observable } from 'rxjs';
import { retry, timeout } from 'rxjs/operators';

import { growth, LINEAR } from '../support/growth.js';
import { startModule, startServer } from './support/applications.js';
import { startEndpoints } from './support/endpoints.js';
import { Gate, rejection } from './support/events.js';
import { faultyNodes, loseLock } from './support/faulty-nodes.js';
import { journal, retriesAfter, Transaction } from './support/interceptors.js';
import { get } from './support/requests.js';

describe('a @Locked endpoint that an inner interceptor retries', () => {
  const whenTaken = (): Promise<string> => Promise.reject(new Error('taken'));
  const listeners: number[] = [];
  let changes = 0;
  let retries: number;

  beforeEach(() => {
    retries = 2;
  });

  @Injectable()
  class Retrying implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return next.handle().pipe(retry(retries));
    }
  }

  @Controller()
  class Endpoints {
    tries = 0;

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

    @Get('retried/looking')
    @UseInterceptors(Retrying)
    @Locked('endpoint')
    retriedLooking(): Observable<string> {
      return defer(() => {
        for (let looks = 0; looks < 300; looks += 1) currentLock('another');
        throw new Error('flaky');
      });
    }

    @Get('changing')
    @UseInterceptors(Retrying)
    @Locked((id: string) => id)
    async changing(@Query('id', { transform: () => `id:${(changes += 1)}` }) id: string) {
      expect(currentLock()?.resources).toEqual([id]);
      return this.flaky();
    }

    @Get('changing-in-part')
    @UseInterceptors(Retrying)
    @Locked((id: string) => ['common', id], { wait: 0 })
    async changingInPart(@Query('id', { transform: () => `id:${(changes += 1)}` }) _id: string) {
      return this.flaky();
    }

    private async flaky(): Promise<string> {
      this.tries += 1;
      if (this.tries < 3) throw new Error('flaky');
      return `try ${this.tries}`;
    }
  }

  it.each(['literal', 'arguments', 'observable'])(
    'lets an inner interceptor retry the handler under the same lock: %s',
    async (kind) => {
      const { url, isFree } = await startEndpoints(Endpoints);

      expect(await get(url, `/retried/${kind}`)).toMatchObject({ status: 200, body: 'try 3' });
      expect(await isFree()).toBe(true);
    },
  );

  it('gathers no listeners on the lock with the tries of an Observable', async () => {
    const { url } = await startEndpoints(Endpoints);

    await get(url, '/retried/listening');

    const [first] = listeners;
    expect(listeners).toEqual([first, first, first]);
  });

  it('makes the context of an Observable no deeper with each of its tries', async () => {
    const { url } = await startEndpoints(Endpoints);
    const prepare = (count: number) => {
      retries = count;
      return () => get(url, '/retried/looking');
    };

    expect(await growth(prepare, 200)).toBeLessThan(LINEAR);
  });

  it('locks anew when a retried handler gets other arguments', async () => {
    const { url, redlock } = await startEndpoints(Endpoints);

    expect(await get(url, '/changing?id=x')).toMatchObject({ status: 200, body: 'try 3' });
    expect((await redlock.status()).held).toBe(0);
  });

  it('runs no retried handler under a lock of only some of its resources', async () => {
    const { url, endpoints } = await startEndpoints(Endpoints);

    expect((await get(url, '/changing-in-part?id=x')).status).toBe(500);
    expect(endpoints.tries).toBe(1);
  });

  it.each([
    ['literal', 'order:7', whenTaken],
    ['context', fromContext(() => 'order:7'), whenTaken],
    ['arguments', () => 'order:7', 'throw' as const],
  ])('asks anew for what others held at the first try: %s', async (_kind, resource, onTaken) => {
    const held = new Gate<Lock>();
    @Controller()
    class Patient {
      @Get()
      @UseInterceptors(retriesAfter(async () => (await held.passed).release()), Transaction)
      @Locked(resource, { wait: 0, onTaken })
      async run(): Promise<string> {
        return currentLock()?.resources.join() ?? 'unlocked';
      }
    }
    const { url, redlock } = await startEndpoints(Patient);
    held.open(await redlock.acquire('order:7'));

    expect(await get(url, '/')).toMatchObject({ status: 200, body: 'order:7' });
    expect(journal.at(-1)).toBe('commit held');
  });

  it.each([
    ['literal', 'order:7'],
    ['context', fromContext(() => 'order:7')],
    ['arguments', () => 'order:7'],
  ])('refuses at once to run a handler while it is still at work: %s', async (_kind, resource) => {
    const end = new Gate();
    const impatient: NestInterceptor = {
      intercept: (_context, next) => next.handle().pipe(timeout(20), retry(1)),
    };
    @Injectable()
    class AtWork {
      @UseInterceptors(impatient)
      @Locked(resource, { wait: 60_000 })
      run(): Promise<void> {
        return end.passed;
      }
    }
    const module = await startModule({ providers: [AtWork] });
    const atWork = module.get(AtWork);
    const run = module.get(ExternalContextCreator).create(atWork, atWork.run, 'run');

    const error = await rejection(run());
    end.open();

    expect(error).toMatchObject({ code: 'LOCK_REENTRY', resources: ['order:7'] });
  });

  it('loses with its retries a lock that its caller has, and whose signal that has read', async () => {
    const nodes = faultyNodes();
    @Injectable()
    class Joining {
      @UseInterceptors(Retrying)
      @Locked(fromContext(() => 'order:7'), { reentrant: true })
      run(): Observable<never> {
        void loseLock(nodes, currentLock());
        return NEVER;
      }
    }
    const module = await startModule({ providers: [Joining] }, {}, nodes);
    const joining = module.get(Joining);
    const run = module.get(ExternalContextCreator).create(joining, joining.run, 'run');

    const error = module.get(RedlockService).using('order:7', ({ signal }) => {
      expect(signal.aborted).toBe(false);
      return rejection(run());
    });

    const code = 'LOCK_LOST';
    expect(await rejection(error)).toMatchObject({ code, result: { cause: { code } } });
  });

  it('answers 500 where a retried handler loses the lock of its other arguments', async () => {
    const nodes = faultyNodes();
    let tries = 0;
    @Controller()
    class Losing {
      @Get()
      @UseInterceptors(Retrying)
      @Locked((id: string) => id)
      async run(@Query('id', { transform: () => `id:${(changes += 1)}` }) _id: string) {
        tries += 1;
        if (tries === 1) throw new Error('flaky');
        await loseLock(nodes, currentLock());
        return 'too late';
      }
    }
    retries = 1;
    const { url } = await startServer({ controllers: [Losing] }, {}, nodes);

    const { status, body } = await get(url, '/?id=x');

    expect([status, tries]).toEqual([500, 2]);
    expect(JSON.parse(body)).toMatchObject({ error: 'LOCK_LOST' });
  });
});
