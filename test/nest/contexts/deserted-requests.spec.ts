/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// HTTP requests whose clients do not wait for their lock as long as the server would.
import type { ServerResponse } from 'node:http';
import { connect, constants } from 'node:http2';

import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  Param,
  UseGuards,
  type CanActivate,
  type INestApplication,
  type NestInterceptor,
  type Provider,
} from '@nestjs/common';
import { APP_INTERCEPTOR, ExternalContextCreator } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test, type TestingModule } from '@nestjs/testing';
import { fromContext, Locked, MemoryNode, RedlockModule, RedlockService } from 'nestjs-locked';
import { from, lastValueFrom, of, Observable } from 'rxjs';
import { retry, tap } from 'rxjs/operators';

import { afterTest } from '../../support/after-test.js';
import { eventually } from '../../support/eventually.js';
import { Log } from '../support/applications.js';
import { Gate, turn } from '../support/events.js';

const ran: string[] = [];
let guard = { entered: new Gate(), leave: new Gate() };

@Injectable()
class SlowGuard implements CanActivate {
  async canActivate(): Promise<boolean> {
    guard.entered.open();
    await guard.leave.passed;
    return true;
  }
}

@Injectable()
@Controller()
class Orders {
  @Get('literal')
  @Locked('order')
  async literal(): Promise<void> {
    ran.push('literal');
  }

  @Get('guarded')
  @UseGuards(SlowGuard)
  @Locked('order')
  async guarded(): Promise<void> {
    ran.push('guarded');
  }

  @Get('hasty')
  @Locked('order', { wait: 0 })
  async hasty(): Promise<string> {
    return 'done';
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
const http2: Create = (module) => module.createNestApplication(new FastifyAdapter({ http2: true }));

async function start(
  create: Create,
  configure?: (application: INestApplication) => void,
  providers: Provider[] = [],
) {
  const log = new Log();
  const imports = [RedlockModule.forRoot([new MemoryNode()], { wait: 60_000 })];
  const module = await Test.createTestingModule({ imports, controllers: [Orders], providers })
    .setLogger(log)
    .compile();
  const application = create(module);
  configure?.(application);
  await application.listen(0, '127.0.0.1');
  afterTest(() => application.close());
  const redlock = application.get(RedlockService);
  const isWaiting = async (): Promise<boolean> => (await redlock.status()).waiting > 0;
  return { application, url: await application.getUrl(), redlock, isWaiting, log };
}

/** Sends a request; the returned function breaks it off. */
type Send = (url: string, path: string) => () => void;

const sendByHttp1: Send = (url, path) => {
  const client = new AbortController();
  void fetch(url + path, { signal: client.signal }).catch(() => undefined);
  return () => client.abort();
};
const sendByHttp2: Send = (url, path) => {
  const session = connect(url);
  const request = session.request({ ':path': path });
  request.on('error', () => undefined);
  afterTest(() => session.destroy());
  return () => request.close(constants.NGHTTP2_CANCEL);
};

afterEach(() => {
  ran.length = 0;
  guard = { entered: new Gate(), leave: new Gate() };
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

it('a request whose answer an outer interceptor awaits does not run when its client has gone', async () => {
  // Nest 12 drops the answer of a client that has gone, but that does not reach what is awaited.
  const awaiting: NestInterceptor = {
    intercept: (_context, next) => from(lastValueFrom(next.handle())),
  };
  const outer = { provide: APP_INTERCEPTOR, useValue: awaiting };
  const { url, redlock, isWaiting } = await start(express, undefined, [outer]);
  const lock = await redlock.acquire('order', 30_000);
  const client = new AbortController();
  const answer = fetch(`${url}/observable/order`, { signal: client.signal }).catch(() => 'gone');
  await eventually(isWaiting);

  client.abort();

  expect(await answer).toBe('gone');
  await eventually(async () => !(await isWaiting()));
  await lock.release();
  expect(ran).toEqual([]);
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

it.each<[string, Create, Send]>([
  ['Express', express, sendByHttp1],
  ['Fastify', fastify, sendByHttp1],
  ['HTTP/2', http2, sendByHttp2],
])(
  'a request does not run whose client went before it asked for its lock: %s',
  async (...given) => {
    const [, create, send] = given;
    let isClosed = false;
    const watch = (_request: unknown, response: ServerResponse, next: () => void): void => {
      response.once('close', () => (isClosed = true));
      next();
    };
    const { url, redlock } = await start(create, (application) => application.use(watch));
    const breakOff = send(url, '/guarded');
    await guard.entered.passed;

    breakOff();
    await eventually(() => isClosed);
    guard.leave.open();
    for (let turns = 0; turns < 20; turns += 1) await turn();

    expect(ran).toEqual([]);
    expect(await redlock.status()).toMatchObject({ held: 0, waiting: 0 });
  },
);

it('a call that has no response runs, as of a library that calls handlers by itself', async () => {
  const { application } = await start(express);
  const orders = application.get(Orders);
  const call = application
    .get(ExternalContextCreator)
    .create(orders, orders.hasty.bind(orders), 'hasty');

  expect(await call()).toBe('done');
});

it('a request that an outer interceptor tries many times is watched once', async () => {
  const counts: number[] = [];
  const retrying: NestInterceptor = {
    intercept: (context, next) => {
      const response = context.switchToHttp().getResponse<ServerResponse>();
      const count = (): void => void counts.push(response.listenerCount('close'));
      return next.handle().pipe(tap({ subscribe: count }), retry({ count: 3, delay: 1 }));
    },
  };
  const outer = { provide: APP_INTERCEPTOR, useValue: retrying };
  const { url, redlock } = await start(express, undefined, [outer]);
  await using lock = await redlock.acquire('order', 30_000);

  expect((await fetch(`${url}/hasty`)).status).toBe(423);

  expect(lock.isValid).toBe(true);
  expect(counts).toHaveLength(4);
  expect(new Set(counts).size).toBe(1);
});
