// Where Nest runs no interceptor, a busy lock is told as any other error.
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { describe, expect, it } from '@jest/globals';
import { Controller, Get, Injectable, UseGuards, type CanActivate } from '@nestjs/common';
import { Field, GraphQLModule, ObjectType, Query, ResolveField, Resolver } from '@nestjs/graphql';
import { Locked, RedlockService } from 'nestjs-locked';

import { Deep } from './support/account-endpoints.js';
import { startServer } from './support/applications.js';
import { getJson } from './support/requests.js';

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

    const answer = await redlock.using('account:42', () => getJson(url, '/'));

    expect(answer).toMatchObject({ status: 500, body: { message: 'Internal server error' } });
    expect(await getJson(url, '/')).toMatchObject({ status: 200, body: {} });
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
