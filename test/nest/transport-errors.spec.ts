/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// A busy lock is no server error: each transport gets its own kind.
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { describe, expect, it } from '@jest/globals';
import {
  Catch,
  Controller,
  Get,
  Injectable,
  Param,
  type ArgumentsHost,
  type ExceptionFilter,
  Sse,
  UseGuards,
  UseInterceptors,
  type CanActivate,
  type HttpException,
  type MessageEvent,
} from '@nestjs/common';
import { APP_FILTER, ExternalContextCreator } from '@nestjs/core';
import { Field, GraphQLModule, ObjectType, Query, ResolveField, Resolver } from '@nestjs/graphql';
import { BaseRpcExceptionFilter, MessagePattern } from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { graphql, GraphQLNonNull, GraphQLObjectType, GraphQLSchema, GraphQLString } from 'graphql';
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
import { concat, lastValueFrom, of, throwError, type Observable } from 'rxjs';

import { afterTest } from '../support/after-test.js';
import {
  Log,
  startPlain,
  startPlainServer,
  startServer,
  threeNodes,
} from './support/applications.js';
import { faultyNodes } from './support/faulty-nodes.js';
import { rejection } from './support/events.js';
import { startGateways } from './support/gateway-service.js';
import { startTcpService } from './support/tcp-service.js';

const details = {
  resources: ['account:42'],
  votes: [{ node: 'redis://10.0.0.1', vote: 'none', message: '' }],
} as const;
const failures: Record<string, Error> = {
  noQuorum: new NoQuorumError('no quorum at redis://10.0.0.1', details),
  quarantine: new NoQuorumError('in quarantine', { ...details, retryAfter: 28_400 }),
  expired: new LockExpiredError('expired', details),
  closed: new RedlockClosedError('closed', details),
  lost: new LockLostError('lost', { ...details, reason: 'expired' }),
};

@Injectable()
class Deep {
  @Locked('account:42', { wait: 0 })
  async run(): Promise<string> {
    return 'done';
  }
}

@Controller()
class Endpoints {
  readonly deep: Deep;
  constructor(deep: Deep) {
    this.deep = deep;
  }

  @Get('locked')
  @MessagePattern('locked')
  @Locked('account:42', { wait: 0 })
  async locked(): Promise<string> {
    return 'done';
  }

  @Get('deep')
  @MessagePattern('deep')
  async deeper(): Promise<string> {
    return this.deep.run();
  }

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

async function get(url: string, path: string) {
  const response = await fetch(url + path);
  return {
    status: response.status,
    retryAfter: response.headers.get('retry-after'),
    body: await response.json(),
  };
}

describe('over HTTP', () => {
  it.each(['/locked', '/deep'])('a taken lock is 423 with Retry-After: %s', async (path) => {
    const { url, application } = await startServer({ controllers: [Endpoints], providers: [Deep] });
    const redlock = application.get(RedlockService);

    const answer = await redlock.using('account:42', { ttl: 5_000 }, () => get(url, path));

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

    expect(await get(url, '/by-hand')).toMatchObject({
      status: 423,
      body: { error: 'LOCK_TAKEN' },
    });
  });

  it('nodes that are down are 503 with Retry-After', async () => {
    const nodes = faultyNodes();
    const { url } = await startServer(
      { controllers: [Endpoints], providers: [Deep] },
      { wait: 0 },
      nodes,
    );
    for (const node of nodes) node.refuse();

    expect(await get(url, '/locked')).toMatchObject({
      status: 503,
      retryAfter: '1',
      body: { statusCode: 503, error: 'NO_QUORUM' },
    });
  });

  it.each([
    ['noQuorum', 503, '1', 'NO_QUORUM'],
    ['quarantine', 503, '29', 'NO_QUORUM'],
    ['expired', 503, '1', 'LOCK_EXPIRED'],
    ['closed', 503, '1', 'REDLOCK_CLOSED'],
    ['lost', 500, null, 'LOCK_LOST'],
  ])('%s is %i, and tells nothing of resources and nodes', async (how, status, after, error) => {
    const { url } = await startServer({ controllers: [Endpoints], providers: [Deep] });

    const { body, ...answer } = await get(url, `/failing/${how}`);

    expect(answer).toEqual({ status, retryAfter: after });
    expect(body).toMatchObject({ statusCode: status, error });
    expect(JSON.stringify(body)).not.toMatch(/account:42|10\.0\.0\.1/);
  });

  it('a nested acquisition is a 500 that Nest logs, as any other bug', async () => {
    const log = new Log();
    const { url } = await startServer(
      { controllers: [Endpoints], providers: [Deep] },
      {},
      threeNodes(),
      log,
    );

    expect(await get(url, '/nested')).toMatchObject({
      status: 500,
      body: { message: 'Internal server error' },
    });
    expect(log.lines.some((line) => String(line[1]).includes('LockReentryError'))).toBe(true);
  });

  it('an error after the response has begun sets no header any more', async () => {
    const { url } = await startServer({ controllers: [Endpoints], providers: [Deep] });

    const events = await (await fetch(`${url}/events`)).text();

    expect(events).toContain('data: one');
    expect(events).toContain('event: error');
    expect(events).toContain('Locks are not available at the moment');
  });

  it('statuses are as the module says', async () => {
    const httpStatus = { taken: 409, unavailable: 502, lost: 599 };
    const { url, application } = await startServer(
      { controllers: [Endpoints], providers: [Deep] },
      { httpStatus },
    );
    const redlock = application.get(RedlockService);

    const taken = await redlock.using('account:42', () => get(url, '/locked'));

    expect(taken).toMatchObject({ status: 409, body: { statusCode: 409 } });
    expect(await get(url, '/failing/expired')).toMatchObject({ status: 502 });
    expect(await get(url, '/failing/lost')).toMatchObject({ status: 599 });
  });

  it('a status that is undefined is the default', async () => {
    const httpStatus = { unavailable: undefined as never, lost: 599 };
    const { url } = await startServer(
      { controllers: [Endpoints], providers: [Deep] },
      { httpStatus },
    );

    expect(await get(url, '/failing/expired')).toMatchObject({ status: 503 });
    expect(await get(url, '/failing/lost')).toMatchObject({ status: 599 });
  });

  it('statuses are as the module says also where the interceptor is bound by hand', async () => {
    const options = { interceptor: false, httpStatus: { taken: 409 } };
    const { url } = await startServer({ controllers: [BoundByHand] }, options);

    expect(await get(url, '/by-hand')).toMatchObject({ status: 409 });
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
      controllers: [Endpoints],
      providers: [Deep, { provide: APP_FILTER, useClass: Filter }],
    });
    const own = (failures.own = new Error('own'));

    await get(url, '/failing/expired');
    await get(url, '/failing/own');

    expect(caught).toEqual([expect.objectContaining({ cause: failures.expired }), own]);
    expect(caught[1]).toBe(own);
  });

  it('with the interceptor off lock errors are as any other', async () => {
    const { url } = await startServer(
      { controllers: [Endpoints], providers: [Deep] },
      { interceptor: false },
    );

    expect((await get(url, '/failing/expired')).status).toBe(500);
  });
});

describe('over a microservice', () => {
  const caught: unknown[] = [];
  @Catch()
  class Filter extends BaseRpcExceptionFilter {
    override catch(exception: unknown, host: ArgumentsHost) {
      caught.push(exception);
      return super.catch(exception, host);
    }
  }

  async function ask(pattern: string): Promise<unknown> {
    const module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot(threeNodes())],
      controllers: [Endpoints],
      providers: [Deep, { provide: APP_FILTER, useClass: Filter }],
    })
      .setLogger(new Log())
      .compile();
    const { service, client, close } = await startTcpService(module);
    afterTest(close);

    const send = (): Promise<unknown> => lastValueFrom(client.send(pattern, {}));
    expect(await send()).toBe('done');
    return service.get(RedlockService).using('account:42', { ttl: 5_000 }, () => rejection(send()));
  }

  it.each(['locked', 'deep'])('a taken lock is an RpcException: %s', async (pattern) => {
    expect(await ask(pattern)).toEqual({
      status: 'error',
      message: 'The resource is locked by another call',
      code: 'LOCK_TAKEN',
      retryAfter: expect.any(Number),
    });
    expect(caught.pop()).toMatchObject({ cause: { code: 'LOCK_TAKEN' } });
  });
});

describe('over a WebSocket', () => {
  @WebSocketGateway()
  class Gateway {
    @SubscribeMessage('run')
    @Locked((id: string) => `account:${id}`, { wait: 0 })
    async run(@MessageBody() _id: string): Promise<unknown> {
      return { event: 'ran', data: 'done' };
    }
  }

  it('a taken lock is a WsException', async () => {
    const module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot(threeNodes())],
      providers: [Gateway],
    })
      .setLogger(new Log())
      .compile();
    const { redlock, ask } = await startGateways(module);

    const free = await ask('run', '42');
    const taken = await redlock.using('account:42', { ttl: 5_000 }, () => ask('run', '42'));

    expect(free).toEqual({ event: 'ran', data: 'done' });
    expect(taken).toEqual({
      event: 'exception',
      data: {
        status: 'error',
        message: 'The resource is locked by another call',
        code: 'LOCK_TAKEN',
        retryAfter: expect.any(Number),
      },
    });
  });
});

describe('in GraphQL', () => {
  @Injectable()
  class Names {
    @Locked('account:42', { wait: 0 })
    async name(): Promise<string> {
      return 'done';
    }

    @Locked('account:42')
    async nested(): Promise<string> {
      return this.nested();
    }
  }

  // What @nestjs/graphql, and others like it, do for each resolver.
  async function start(contextType: string, log = new Log(), name: keyof Names = 'name') {
    const imports = [RedlockModule.forRoot(threeNodes())];
    const module = await startPlain({ imports, providers: [Names] }, log);
    const resolver = module.get(Names);
    const none = undefined;
    const resolve = module
      .get(ExternalContextCreator)
      .create(resolver, resolver[name], name, none, none, none, none, none, contextType);
    return { module, resolve: (): Promise<unknown> => resolve() as Promise<unknown> };
  }

  function schemaOf(resolve: () => Promise<unknown>): GraphQLSchema {
    const type = new GraphQLNonNull(GraphQLString);
    const query = new GraphQLObjectType({ name: 'Query', fields: { name: { type, resolve } } });
    return new GraphQLSchema({ query });
  }

  it('a taken lock is an error with extensions.code, and nothing to log', async () => {
    const log = new Log();
    const { module, resolve } = await start('graphql', log);
    const schema = schemaOf(resolve);
    const ask = () => graphql({ schema, source: '{ name }' });

    const free = await ask();
    // By hand: a resolver in the same async context would be a nested acquisition.
    await using lock = await module.get(RedlockService).acquire('account:42', 5_000);
    const taken = await ask();

    expect(lock.isValid).toBe(true);
    expect(free.data).toEqual({ name: 'done' });
    expect(taken.errors?.[0]?.toJSON()).toMatchObject({
      message: 'The resource is locked by another call',
      extensions: { code: 'LOCK_TAKEN', retryAfter: expect.any(Number) },
    });
    expect(taken.errors?.[0]?.originalError).toMatchObject({ cause: { code: 'LOCK_TAKEN' } });
    expect(log.lines.filter(([level]) => level !== 'log')).toEqual([]);
  });

  it('a nested acquisition is logged, and the client learns of no resource and no source', async () => {
    const log = new Log();
    const { resolve } = await start('graphql', log, 'nested');

    const { errors } = await graphql({ schema: schemaOf(resolve), source: '{ name }' });

    expect(errors?.map((error) => error.toJSON())).toMatchObject([
      { message: 'Internal server error', path: ['name'] },
    ]);
    const logged = log.lines.filter(([level]) => level === 'error').map(([, error]) => error);
    expect(logged).toMatchObject([{ cause: { code: 'LOCK_REENTRY' } }]);
  });

  it('or any other transport without an error kind known here: the error stays as it is', async () => {
    const { module, resolve } = await start('necord');
    await using lock = await module.get(RedlockService).acquire('account:42', 5_000);

    expect(lock.isValid).toBe(true);
    expect(await rejection(resolve())).toBeInstanceOf(LockTakenError);
  });
});

describe('where Nest runs no interceptor', () => {
  @Injectable()
  class LockingGuard implements CanActivate {
    readonly deep: Deep;
    constructor(deep: Deep) {
      this.deep = deep;
    }

    async canActivate(): Promise<boolean> {
      return (await this.deep.run()) === 'done';
    }
  }

  it('a lock that a guard takes is as any other error: over HTTP a 500', async () => {
    @Controller()
    @UseGuards(LockingGuard)
    class Guarded {
      @Get()
      get(): object {
        return {};
      }
    }
    const { url, application } = await startServer({ controllers: [Guarded], providers: [Deep] });
    const redlock = application.get(RedlockService);

    const answer = await redlock.using('account:42', () => get(url, '/'));

    expect(answer).toMatchObject({ status: 500, body: { message: 'Internal server error' } });
    expect(await get(url, '/')).toMatchObject({ status: 200, body: {} });
  });

  @ObjectType()
  class Account {
    @Field(() => String)
    id = '42';
  }

  @Resolver(() => Account)
  class Accounts {
    @Query(() => Account)
    account(): Account {
      return new Account();
    }

    @Query(() => Account)
    @UseGuards(LockingGuard)
    guarded(): Account {
      return new Account();
    }

    @ResolveField(() => String)
    @Locked('account:42', { wait: 0 })
    async balance(): Promise<string> {
      return '1';
    }
  }

  /** What a client of GraphQL is told while the account is locked. */
  async function toldOf(query: string, enhancers: Enhancer[]): Promise<unknown> {
    const graphqlModule = GraphQLModule.forRoot<ApolloDriverConfig>({
      driver: ApolloDriver,
      autoSchemaFile: true,
      graphiql: false,
      fieldResolverEnhancers: enhancers,
    });
    const { url, application } = await startServer({
      imports: [graphqlModule],
      providers: [Accounts, Deep],
    });
    await using lock = await application.get(RedlockService).acquire('account:42', 5_000);
    const response = await fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query }),
    });
    expect(lock.isValid).toBe(true);
    const { errors } = (await response.json()) as { errors: unknown[] };
    return errors[0];
  }

  it('a field resolver of GraphQL tells the client names, unless its interceptors run', async () => {
    const query = '{ account { balance } }';

    const plain = await toldOf(query, []);
    const enhanced = await toldOf(query, ['interceptors']);

    expect(plain).toMatchObject({ message: expect.stringContaining('"account:42"') });
    expect(enhanced).toMatchObject({
      message: 'The resource is locked by another call',
      extensions: { code: 'LOCK_TAKEN' },
    });
    expect(JSON.stringify(enhanced)).not.toContain('account:42');
  });

  it('a guard of GraphQL tells the client names', async () => {
    expect(await toldOf('{ guarded { id } }', ['interceptors'])).toMatchObject({
      message: expect.stringContaining('"account:42"'),
    });
  });
});

type Enhancer = 'guards' | 'interceptors' | 'filters';
