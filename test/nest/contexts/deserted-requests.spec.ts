/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// HTTP requests whose clients do not wait for their lock as long as the server would.
import type { ServerResponse } from 'node:http';

import { afterEach, describe, expect, it } from '@jest/globals';
import { Controller, Get, Injectable, Param, type INestApplication } from '@nestjs/common';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test, type TestingModule } from '@nestjs/testing';
import { fromContext, Locked, MemoryNode, RedlockModule, RedlockService } from 'nestjs-locked';
import { of, type Observable } from 'rxjs';

import { afterTest } from '../../support/after-test.js';
import { eventually } from '../../support/eventually.js';
import { Log } from '../support/applications.js';

const ran: string[] = [];

@Injectable()
@Controller()
class Orders {
  @Get('literal')
  @Locked('order')
  async literal(): Promise<void> {
    ran.push('literal');
  }

  @Get('context')
  @Locked(fromContext(() => 'order'))
  async context(): Promise<void> {
    ran.push('context');
  }

  @Get('arguments/:name')
  @Locked((name: string) => name)
  async arguments(@Param('name') _name: string): Promise<void> {
    ran.push('arguments');
  }

  @Get('observable/:name')
  @Locked((name: string) => name)
  observable(@Param('name') _name: string): Observable<string> {
    ran.push('observable');
    return of('done');
  }
}

type Create = (module: TestingModule) => INestApplication;

const express: Create = (module) => module.createNestApplication({ forceCloseConnections: true });
const fastify: Create = (module) =>
  module.createNestApplication(new FastifyAdapter({ forceCloseConnections: true }));

async function start(create: Create, configure?: (application: INestApplication) => void) {
  const log = new Log();
  const imports = [RedlockModule.forRoot([new MemoryNode()], { wait: 60_000 })];
  const module = await Test.createTestingModule({ imports, controllers: [Orders] })
    .setLogger(log)
    .compile();
  const application = create(module);
  configure?.(application);
  await application.listen(0, '127.0.0.1');
  afterTest(() => application.close());
  const redlock = application.get(RedlockService);
  const isWaiting = async (): Promise<boolean> => (await redlock.status()).waiting > 0;
  return { url: await application.getUrl(), redlock, isWaiting, log };
}

afterEach(() => {
  ran.length = 0;
});

describe.each([
  ['Express', express],
  ['Fastify', fastify],
])('a request that waits for a lock, on %s', (_adapter, create) => {
  it.each(['literal', 'context', 'arguments/order', 'observable/order'])(
    'does not run when its client has gone, and the next one does: %s',
    async (path) => {
      const { url, redlock, isWaiting, log } = await start(create);
      const lock = await redlock.acquire('order', 30_000);
      const client = new AbortController();
      const answer = fetch(`${url}/${path}`, { signal: client.signal }).catch(() => 'gone');
      await eventually(isWaiting);

      client.abort();

      expect(await answer).toBe('gone');
      await eventually(async () => !(await isWaiting()));
      await lock.release();
      expect((await fetch(`${url}/literal`)).status).toBe(200);
      expect(ran).toEqual(['literal']);
      expect(log.lines.filter(([level]) => level !== 'log')).toEqual([]);
    },
  );
});

it('a request that a middleware has answered runs when it gets its lock', async () => {
  let isClosed = false;
  const answer = (_request: unknown, response: ServerResponse, next: () => void): void => {
    response.once('close', () => (isClosed = true));
    response.end();
    next();
  };
  const { url, redlock, isWaiting } = await start(express, (application) =>
    application.use(answer),
  );
  const lock = await redlock.acquire('order', 30_000);

  await (await fetch(`${url}/literal`)).text();
  await eventually(async () => isClosed && (await isWaiting()));
  await lock.release();

  await eventually(() => ran.length > 0);
});
