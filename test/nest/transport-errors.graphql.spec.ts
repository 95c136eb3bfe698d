// A busy lock is no server error: GraphQL tells it by extensions.code.
import { describe, expect, it, jest } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { ExternalContextCreator } from '@nestjs/core';
import { graphql, GraphQLNonNull, GraphQLObjectType, GraphQLSchema, GraphQLString } from 'graphql';
import {
  Locked,
  LockLostError,
  LockTakenError,
  RedlockModule,
  RedlockService,
} from 'nestjs-locked';

import { Log, startPlain, threeNodes } from './support/applications.js';
import { rejection } from './support/events.js';

const missing = (): never => {
  throw new Error('Cannot find package');
};

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

    async lost(): Promise<string> {
      throw new LockLostError('lost', { resources: ['account:42'], votes: [], reason: 'expired' });
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

  it('a lost lock is an error that names no time to try again', async () => {
    const { resolve } = await start('graphql', new Log(), 'lost');

    const { errors } = await graphql({ schema: schemaOf(resolve), source: '{ name }' });

    expect(errors?.map(({ extensions }) => extensions)).toEqual([{ code: 'LOCK_LOST' }]);
  });

  it('or in HTTP where the application has no server: a taken lock is 423 all the same', async () => {
    const { module, resolve } = await start('http');
    await using lock = await module.get(RedlockService).acquire('account:42', 5_000);

    expect(lock.isValid).toBe(true);
    expect(await rejection(resolve())).toMatchObject({ status: 423 });
  });

  it('or any other transport without an error kind known here: the error stays as it is', async () => {
    const { module, resolve } = await start('necord');
    await using lock = await module.get(RedlockService).acquire('account:42', 5_000);

    expect(lock.isValid).toBe(true);
    expect(await rejection(resolve())).toBeInstanceOf(LockTakenError);
  });

  it.each([
    ['rpc', '@nestjs/microservices', 'is not to be found', missing],
    ['ws', '@nestjs/websockets', 'is not to be found', missing],
    ['rpc', '@nestjs/microservices', 'lacks the exception', () => ({})],
  ])('or in %s where %s %s: so it does', async (transport, packageName, _how, load) => {
    const { module, resolve } = await start(transport);
    await using lock = await module.get(RedlockService).acquire('account:42', 5_000);
    jest.unstable_mockModule(packageName, load);

    expect(lock.isValid).toBe(true);
    expect(await rejection(resolve())).toBeInstanceOf(LockTakenError);
  });
});
