// A busy lock is no server error: over HTTP it is a 423.
import { describe, expect, it } from '@jest/globals';
import {
  Catch,
  Controller,
  Get,
  Param,
  Sse,
  UseInterceptors,
  type ArgumentsHost,
  type ExceptionFilter,
  type HttpException,
  type MessageEvent,
} from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import {
  Locked,
  LockedInterceptor,
  LockExpiredError,
  LockLostError,
  LockTakenError,
  NoQuorumError,
  RedlockClosedError,
  RedlockModule,
  RedlockService,
} from 'nestjs-locked';
import { concat, of, throwError, type Observable } from 'rxjs';

import { AccountEndpoints, Deep } from './support/account-endpoints.js';
import { Log, startPlainServer, startServer, threeNodes } from './support/applications.js';
import { faultyNodes } from './support/faulty-nodes.js';
import { getJson } from './support/requests.js';

const details = {
  resources: ['account:42'],
  votes: [{ node: 'redis://10.0.0.1', vote: 'none', message: '' }],
} as const;
const failures: Record<string, Error> = {
  noQuorum: new NoQuorumError('no quorum at redis://10.0.0.1', details),
  quarantine: new NoQuorumError('in quarantine', { ...details, retryAfter: 28_400 }),
  due: new NoQuorumError('due', { ...details, retryAfter: 0 }),
  inASecond: new NoQuorumError('in a second', { ...details, retryAfter: 1_000 }),
  aMomentLater: new NoQuorumError('a moment later', { ...details, retryAfter: 1_001 }),
  expired: new LockExpiredError('expired', details),
  closed: new RedlockClosedError('closed', details),
  lost: new LockLostError('lost', { ...details, reason: 'expired' }),
};

@Controller()
class FailingEndpoints {
  @Get('failing/:how')
  async failing(@Param('how') how: string): Promise<void> {
    throw failures[how] ?? new Error(how);
  }

  @Sse('events')
  events(): Observable<MessageEvent> {
    return concat(
      of({ data: 'one' }),
      throwError(() => failures.expired),
    );
  }

  @Get('nested')
  @Locked('nested')
  async nested(): Promise<void> {
    await this.nested();
  }
}

const metadata = { controllers: [AccountEndpoints, FailingEndpoints], providers: [Deep] };

describe('over HTTP', () => {
  it.each(['/locked', '/deep'])('a taken lock is 423 with Retry-After: %s', async (path) => {
    const { url, application } = await startServer(metadata);
    const redlock = application.get(RedlockService);

    const answer = await redlock.using('account:42', { ttl: 5_000 }, () => getJson(url, path));

    expect(answer).toEqual({
      status: 423,
      // The ttl of 5 s, less what the request took.
      retryAfter: expect.stringMatching(/^[45]$/),
      body: {
        statusCode: 423,
        message: 'The resource is locked by another call',
        error: 'LOCK_TAKEN',
      },
    });
  });

  @Controller('by-hand')
  @UseInterceptors(LockedInterceptor)
  class BoundByHand {
    @Get()
    async run(): Promise<void> {
      throw new LockTakenError('taken', { ...details, retryAfter: null });
    }
  }

  it('a taken lock is 423 where the interceptor sees no module that sets statuses', async () => {
    const { url } = await startPlainServer({ controllers: [BoundByHand] });

    expect(await getJson(url, '/by-hand')).toMatchObject({
      status: 423,
      body: { error: 'LOCK_TAKEN' },
    });
  });

  it('nodes that are down are 503 with Retry-After', async () => {
    const nodes = faultyNodes();
    const { url } = await startServer(metadata, { wait: 0 }, nodes);
    for (const node of nodes) node.refuse();

    expect(await getJson(url, '/locked')).toMatchObject({
      status: 503,
      retryAfter: '1',
      body: { statusCode: 503, error: 'NO_QUORUM' },
    });
  });

  it.each([
    ['noQuorum', 503, '1', 'NO_QUORUM'],
    ['quarantine', 503, '29', 'NO_QUORUM'],
    ['due', 503, '1', 'NO_QUORUM'],
    ['inASecond', 503, '1', 'NO_QUORUM'],
    ['aMomentLater', 503, '2', 'NO_QUORUM'],
    ['expired', 503, '1', 'LOCK_EXPIRED'],
    ['closed', 503, '1', 'REDLOCK_CLOSED'],
    ['lost', 500, null, 'LOCK_LOST'],
  ])('%s is %i, and tells nothing of resources and nodes', async (how, status, after, error) => {
    const { url } = await startServer(metadata);

    const { body, ...answer } = await getJson(url, `/failing/${how}`);

    expect(answer).toEqual({ status, retryAfter: after });
    expect(body).toMatchObject({ statusCode: status, error });
    expect(JSON.stringify(body)).not.toMatch(/account:42|10\.0\.0\.1/);
  });

  it('a nested acquisition is a 500 that Nest logs, as any other bug', async () => {
    const log = new Log();
    const { url } = await startServer(metadata, {}, threeNodes(), log);

    expect(await getJson(url, '/nested')).toMatchObject({
      status: 500,
      body: { message: 'Internal server error' },
    });
    expect(log.lines.some((line) => String(line[1]).includes('LockReentryError'))).toBe(true);
  });

  it('an error after the response has begun sets no header any more', async () => {
    const { url } = await startServer(metadata);

    const events = await (await fetch(`${url}/events`)).text();

    expect(events).toContain('data: one');
    expect(events).toContain('event: error');
    expect(events).toContain('Locks are not available at the moment');
  });

  it('statuses are as the module says', async () => {
    const httpStatus = { taken: 400, unavailable: 502, lost: 599 };
    const { url, application } = await startServer(metadata, { httpStatus });
    const redlock = application.get(RedlockService);

    const taken = await redlock.using('account:42', () => getJson(url, '/locked'));

    expect(taken).toMatchObject({ status: 400, body: { statusCode: 400 } });
    expect(await getJson(url, '/failing/expired')).toMatchObject({ status: 502 });
    expect(await getJson(url, '/failing/lost')).toMatchObject({ status: 599 });
  });

  it.each(['/locked', '/deep'])('statuses are those of the first domain: %s', async (path) => {
    const imports = [RedlockModule.forRoot(undefined, { name: 'further' })];
    const httpStatus = { taken: 409 };
    const { url, application } = await startServer({ ...metadata, imports }, { httpStatus });
    const redlock = application.get(RedlockService);

    const taken = await redlock.using('account:42', () => getJson(url, path));

    expect(taken).toMatchObject({ status: 409, body: { statusCode: 409 } });
  });

  it('a status that is undefined is the default', async () => {
    const httpStatus = { unavailable: undefined as never, lost: 599 };
    const { url } = await startServer(metadata, { httpStatus });

    expect(await getJson(url, '/failing/expired')).toMatchObject({ status: 503 });
    expect(await getJson(url, '/failing/lost')).toMatchObject({ status: 599 });
  });

  it('statuses are as the module says also where the interceptor is bound by hand', async () => {
    const options = { interceptor: false, httpStatus: { taken: 409 } };
    const { url } = await startServer({ controllers: [BoundByHand] }, options);

    expect(await getJson(url, '/by-hand')).toMatchObject({ status: 409 });
  });

  it('a filter of the application sees the original as the cause, and other errors as they are', async () => {
    const caught: unknown[] = [];
    @Catch()
    class Filter implements ExceptionFilter {
      catch(exception: HttpException, host: ArgumentsHost): void {
        caught.push(exception);
        host.switchToHttp().getResponse<{ json(body: unknown): void }>().json({});
      }
    }
    const { url } = await startServer({
      controllers: [FailingEndpoints],
      providers: [{ provide: APP_FILTER, useClass: Filter }],
    });
    const own = (failures.own = new Error('own'));

    await getJson(url, '/failing/expired');
    await getJson(url, '/failing/own');

    expect(caught).toEqual([expect.objectContaining({ cause: failures.expired }), own]);
    expect(caught[1]).toBe(own);
  });

  it('with the interceptor off lock errors are as any other', async () => {
    const { url } = await startServer(metadata, { interceptor: false });

    expect((await getJson(url, '/failing/expired')).status).toBe(500);
  });
});
