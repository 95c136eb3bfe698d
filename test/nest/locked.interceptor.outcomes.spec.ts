/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// What a @Locked endpoint answers when others hold its lock, and when it loses it.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';

import { describe, expect, it } from '@jest/globals';
import { Catch, Controller, Get, Param, type ArgumentsHost } from '@nestjs/common';
import { APP_FILTER, BaseExceptionFilter } from '@nestjs/core';
import { currentLock, fromContext, Locked, RedlockService } from 'nestjs-locked';
import { defer, Observable } from 'rxjs';

import { afterTest } from '../support/after-test.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { startServer, threeNodes } from './support/applications.js';
import { faultyNodes, loseLock } from './support/faulty-nodes.js';
import { get } from './support/requests.js';

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

  it.each(['literal', 'context'])('asks for it once in a call: %s', async (path) => {
    const { url, application } = await startServer({ controllers: [Orders] }, {}, threeNodes());
    await using others = await application.get(RedlockService).acquire('mine');
    let asked = 0;
    const onAsked = (): void => void (asked += 1);
    subscribe('nestjs-locked:acquire', onAsked);
    afterTest(() => unsubscribe('nestjs-locked:acquire', onAsked));

    await get(url, `/${path}`);

    expect([asked, others.isValid]).toEqual([1, true]);
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
