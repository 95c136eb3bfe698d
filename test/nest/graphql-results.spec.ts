// What GraphQL takes from a resolver that has answered: fields of an object, steps of a subscription.
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { describe, expect, it } from '@jest/globals';
import { UseInterceptors, type NestInterceptor } from '@nestjs/common';
import {
  Field,
  GraphQLModule,
  GraphQLSchemaHost,
  Int,
  ObjectType,
  Query,
  ResolveField,
  Resolver,
  Subscription,
} from '@nestjs/graphql';
import { graphql, parse, subscribe, type ExecutionResult } from 'graphql';
import { currentLock, Locked, RedlockService, type Lock } from 'nestjs-locked';
import { map } from 'rxjs';

import { startServer } from './support/applications.js';
import { Gate, rejection, turn } from './support/events.js';
import { faultyNodes, loseLock } from './support/faulty-nodes.js';

const mine = new Error('mine');

@ObjectType()
class Account {
  @Field(() => Int)
  balance = 7;
}

/** As the cursor of a database is. */
class IterableAccount extends Account {
  [Symbol.asyncIterator](): AsyncIterator<string> {
    return { next: async () => ({ done: true, value: undefined }) };
  }
}

/** Answers in the place of the resolver. */
const iterating: NestInterceptor = {
  intercept: (_context, next) => next.handle().pipe(map(() => new IterableAccount())),
};

async function* insteadOf(events: AsyncGenerator, isEnding: boolean): AsyncGenerator<object> {
  if (isEnding) await events.return(undefined);
  yield { replaced: 0, ended: 0 };
}

/** Answers with other events than the resolver, and ends those or not. */
const replacing = (isEnding: boolean): NestInterceptor => ({
  intercept: (_context, next) =>
    next.handle().pipe(map((events: AsyncGenerator) => insteadOf(events, isEnding))),
});

@Resolver(() => Account)
class Accounts {
  @Query(() => Account)
  @Locked('account:42')
  async account(): Promise<Account> {
    return new Account();
  }

  @Query(() => Account)
  iterable(): Account {
    return new IterableAccount();
  }

  @Query(() => Account)
  @UseInterceptors(iterating)
  @Locked('account:42')
  async replaced(): Promise<Account> {
    return new Account();
  }

  @Subscription(() => Account)
  async *opened(): AsyncGenerator<{ opened: Account }, void> {
    yield { opened: new Account() };
  }

  @ResolveField(() => Account)
  parent(): Account {
    return new IterableAccount();
  }

  @ResolveField(() => Boolean)
  isLocked(): boolean {
    return currentLock() !== undefined;
  }
}

@Resolver()
class Prices {
  lock: Lock | undefined;

  @Subscription(() => Int)
  @Locked('account:42')
  async *prices(): AsyncGenerator<{ prices: number }, void> {
    this.lock = currentLock();
    for (let prices = 1; ; prices += 1) yield { prices };
  }

  // With a filter Nest takes the steps by itself.
  @Subscription(() => Int, { filter: () => true })
  @Locked('account:42')
  async *filtered(): AsyncGenerator<{ filtered: number }, void> {
    this.lock = currentLock();
    for (let filtered = 1; ; filtered += 1) yield { filtered };
  }

  @Subscription(() => Int)
  @Locked('account:42')
  async idle(): Promise<AsyncIterable<{ idle: number }>> {
    // As of a PubSub: it can be left while nothing is published.
    const left = new Gate<IteratorReturnResult<undefined>>();
    const end = async (): Promise<IteratorReturnResult<undefined>> => {
      left.open({ done: true, value: undefined });
      return left.passed;
    };
    return { [Symbol.asyncIterator]: () => ({ next: () => left.passed, return: end }) };
  }

  @Subscription(() => Int)
  async *unlocked(): AsyncGenerator<{ unlocked: number }, void> {
    yield { unlocked: 1 };
    yield await this.next();
  }

  @Subscription(() => Int)
  @Locked('account:42')
  async *failing(): AsyncGenerator<{ failing: number }, void> {
    yield { failing: 1 };
    throw mine;
  }

  @Subscription(() => Int)
  @UseInterceptors(replacing(false))
  @Locked('account:42', { ttl: 200, maxHold: 300 })
  async *replaced(): AsyncGenerator<{ replaced: number }, void> {
    yield { replaced: 1 };
  }

  @Subscription(() => Int)
  @UseInterceptors(replacing(true))
  @Locked('account:42')
  async *ended(): AsyncGenerator<{ ended: number }, void> {
    yield { ended: 1 };
  }

  @Subscription(() => Int)
  @Locked('account:42', { wait: 0, onTaken: 'skip' })
  async skipped(): Promise<AsyncIterable<{ skipped: number }> | undefined> {
    return undefined;
  }

  @Locked('account:42', { wait: 0 })
  private async next(): Promise<{ unlocked: number }> {
    return { unlocked: 2 };
  }
}

async function start() {
  const nodes = faultyNodes();
  const module = GraphQLModule.forRoot<ApolloDriverConfig>({
    driver: ApolloDriver,
    autoSchemaFile: true,
    graphiql: false,
    fieldResolverEnhancers: ['interceptors'],
  });
  const metadata = { imports: [module], providers: [Accounts, Prices] };
  const { application } = await startServer(metadata, {}, nodes);
  const { schema } = application.get(GraphQLSchemaHost);
  const open = (field: string) =>
    subscribe({ schema, document: parse(`subscription { ${field} }`) }) as Promise<
      AsyncGenerator<ExecutionResult, void>
    >;
  return {
    ask: (source: string) => graphql({ schema, source }),
    open,
    lose: () => loseLock(nodes, application.get(Prices).lock),
    redlock: application.get(RedlockService),
  };
}

describe('a @Locked subscription of GraphQL', () => {
  it.each(['prices', 'filtered'])('is locked until its client has gone: %s', async (field) => {
    const { open, redlock } = await start();
    const events = await open(field);
    // Servers may have more to do before they take the first step.
    await turn();

    expect((await events.next()).value).toEqual({ data: { [field]: 1 } });
    expect(await redlock.tryAcquire('account:42')).toBeNull();
    await events.return();
    expect(await redlock.inspect('account:42')).toMatchObject({ state: 'free' });
  });

  it.each(['prices', 'filtered'])(
    'tells its client that the lock was lost, and no names: %s',
    async (field) => {
      const { open, lose } = await start();
      const events = await open(field);
      await events.next();
      await lose();

      const error = await rejection(events.next());

      expect(error).toMatchObject({
        message: 'The lock was lost before the call was done',
        extensions: { code: 'LOCK_LOST' },
        cause: { code: 'LOCK_LOST', resources: ['account:42'] },
      });
    },
  );

  it('releases when its client leaves while it waits for its next event', async () => {
    const { open, redlock } = await start();
    const events = await open('idle');
    void events.next();
    await turn();

    await events.return();

    expect(await redlock.inspect('account:42')).toMatchObject({ state: 'free' });
  });

  it('keeps its lock until maxHold when an interceptor answers with other events', async () => {
    const { open, redlock } = await start();
    const events = await open('replaced');
    expect((await events.next()).value).toEqual({ data: { replaced: 0 } });
    await turn();

    expect(await redlock.tryAcquire('account:42')).toBeNull();
    await using lock = await redlock.acquire('account:42', 1_000, { wait: 5_000 });
    expect(lock.isValid).toBe(true);
  });

  it('releases when such an interceptor ends the events of the resolver', async () => {
    const { open, redlock } = await start();
    const events = await open('ended');
    expect((await events.next()).value).toEqual({ data: { ended: 0 } });

    expect(await redlock.inspect('account:42')).toMatchObject({ state: 'free' });
  });

  it('is told by GraphQL itself that there are no events where it is skipped', async () => {
    const { open, redlock } = await start();
    await using lock = await redlock.acquire('account:42');

    expect(String(await rejection(open('skipped')))).toContain('must return Async Iterable');
    expect(lock.isValid).toBe(true);
  });

  it('fails with the error of its own code as it is', async () => {
    const { open } = await start();
    const events = await open('failing');
    await events.next();

    expect(await rejection(events.next())).toBe(mine);
  });
});

it('the fields of what a @Locked query of GraphQL returned are resolved after its release', async () => {
  const { ask, redlock } = await start();

  expect((await ask('{ account { isLocked } }')).data).toEqual({ account: { isLocked: false } });
  expect(await redlock.inspect('account:42')).toMatchObject({ state: 'free' });
});

it('what a query of GraphQL returned stays what it is, even if it can be iterated', async () => {
  const { ask } = await start();

  expect((await ask('{ iterable { balance } }')).data).toEqual({ iterable: { balance: 7 } });
});

it('so does what an interceptor answers in the place of a @Locked query', async () => {
  const { ask } = await start();

  expect((await ask('{ replaced { balance } }')).data).toEqual({ replaced: { balance: 7 } });
});

it('so does a field of the event of a subscription', async () => {
  const { open } = await start();
  const events = await open('opened { parent { balance } }');

  expect((await events.next()).value).toEqual({ data: { opened: { parent: { balance: 7 } } } });
});

it('a subscription whose next event needs a lock tells its client no names', async () => {
  const { open, redlock } = await start();
  const events = await open('unlocked');
  await using lock = await redlock.acquire('account:42', 5_000);

  expect((await events.next()).value).toEqual({ data: { unlocked: 1 } });
  expect(lock.isValid).toBe(true);
  expect(await rejection(events.next())).toMatchObject({
    message: 'The resource is locked by another call',
    extensions: { code: 'LOCK_TAKEN', retryAfter: expect.any(Number) },
  });
});
