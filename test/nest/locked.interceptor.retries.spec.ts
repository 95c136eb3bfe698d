/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// `@Locked` endpoints that are tried again, by outer interceptors or by what they have begun.

import { Readable } from 'node:stream';

import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  NotFoundException,
  Param,
  Post,
  StreamableFile,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { currentLock, fromContext, Locked, RedlockService } from 'nestjs-locked';
import { map, Observable, throwError, timer } from 'rxjs';
import { mergeMap, raceWith } from 'rxjs/operators';

import { eventually } from '../support/eventually.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { startServer } from './support/applications.js';
import { faultyNodes } from './support/faulty-nodes.js';
import { Gate, turn } from './support/events.js';
import { requestOf, get } from './support/requests.js';
import { journal, Transaction, retriesAfter } from './support/interceptors.js';

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

  @Injectable()
  class Checking implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const check = (answer: unknown): unknown => {
        if ((failures -= 1) >= 0) throw new Error('flaky');
        return answer;
      };
      return next.handle().pipe(map(check));
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

    @Get('file')
    @UseInterceptors(Checking)
    @Locked('order:7', { wait: 5_000 })
    async file(): Promise<StreamableFile> {
      return new StreamableFile(Readable.from(['rows']));
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

  it('does not wait for a stream of the try before, which nobody will read', async () => {
    const { url, redlock } = await start();
    failures = 1;

    expect(await get(url, '/file')).toMatchObject({ status: 200, body: 'rows' });
    await eventually(async () => (await redlock.status()).held === 0);
  });

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
