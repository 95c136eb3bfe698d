// The same facts of every kind of Nest application: `@Locked` excludes over replicas, changes
// nothing about the handler that it locks, and tells of taken and lost locks in the context's way.
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { currentLock, LockLostError } from 'nestjs-locked';

import { startRedisServer, type RedisServer } from '../../support/redis-servers.js';
import { afterTest } from '../../support/after-test.js';
import { Log } from '../support/applications.js';
import { Gate, rejection, turn } from '../support/events.js';
import { faultyNodes, loseLock } from '../support/faulty-nodes.js';
import {
  ARRIVAL_LIMIT,
  Desk,
  DESK,
  everyOrder,
  handlerOf,
  replicaOf,
  ROLES,
  type Context,
  type Operation,
  type Running,
} from './context.js';
import { command, cqrsQuery, eventEmitter, schedule, standalone } from './in-process.js';
import { bullmq } from './over-bullmq.js';
import { mutation, query } from './over-graphql.js';
import { express, fastify } from './over-http.js';
import { tcp } from './over-rpc.js';
import { socketIo } from './over-socket-io.js';

const contexts: readonly Context[] = [
  express,
  fastify,
  tcp,
  socketIo,
  query,
  mutation,
  bullmq,
  schedule,
  eventEmitter,
  command,
  cqrsQuery,
  standalone,
];

const impatient: Operation = { name: 'impatient', options: { wait: 0 }, order: [] };
const open: Operation = { name: 'open', options: {}, order: [], isOpen: true };

describe.each(contexts)('in $name', (context) => {
  const orders = everyOrder(context);
  const desk = new Desk();
  const nodes = faultyNodes();
  const handlers = [...orders, impatient, open].map((operation) =>
    handlerOf(context, operation, desk),
  );
  let redis: RedisServer;
  let replicas: Running[];

  beforeAll(async () => {
    redis = await startRedisServer();
    const log = new Log();
    const start = () => context.start(replicaOf(handlers, nodes, log, redis.port));
    replicas = [await start(), await start()];
  });

  afterAll(async () => {
    for (const replica of replicas) await replica.close();
    await redis.stop();
  });

  const replica = (index: number): Running => {
    const found = replicas[index];
    if (found === undefined) throw new Error(`There is no replica ${index}`);
    return found;
  };
  const openDesk = (serve: Desk['serve']): void => {
    desk.visits = [];
    desk.most = 0;
    desk.serve = serve;
  };
  const haveArrived = async (count: number): Promise<void> => {
    const endsAt = performance.now() + ARRIVAL_LIMIT;
    for (;;) {
      const states = await Promise.all(replicas.map(({ redlock }) => redlock.status()));
      const waiting = states.reduce((sum, state) => sum + state.waiting, 0);
      const visits = desk.visits.length;
      if (waiting + visits >= count) return;
      if (performance.now() > endsAt) {
        throw new Error(`Of ${count} calls ${visits} came in and ${waiting} wait`);
      }
      await turn();
    }
  };
  /** Calls the handlers on all replicas. Nobody leaves before everybody is inside or waits. */
  const crowd = async (names: readonly string[]): Promise<void> => {
    const everybody = new Gate();
    openDesk(async () => {
      await everybody.passed;
      for (let count = 0; count < 20; count += 1) await turn();
      return 'done';
    });
    const calls = replicas.flatMap(({ call }) => names.map((name) => call(name, 'admin')));
    await Promise.all([haveArrived(calls.length).finally(() => everybody.open()), ...calls]);
  };

  it(`a handler is found and locked, and keeps its metadata, in all orders of decorators`, async () => {
    openDesk(async () => 'done');

    for (const { name } of orders) await replica(0).call(name, 'admin');

    expect(desk.visits).toEqual(orders.map(({ name }) => `${name} locked`));
    for (const handler of handlers) {
      const method: unknown = Reflect.get(handler.prototype as object, context.methodName);
      expect(Reflect.getMetadata(ROLES, method as object)).toEqual(['admin']);
    }
  });

  it('one call runs at a time, over all handlers of a resource and all replicas', async () => {
    const names = [orders.at(0), orders.at(-1)].map((operation) => operation?.name ?? '');

    await crowd(names);

    expect(desk.visits).toHaveLength(2 * names.length);
    expect(desk.most).toBe(1);
  });

  it('without @Locked the same calls are inside together', async () => {
    await crowd([open.name]);

    expect(desk.visits).toEqual(['open unlocked', 'open unlocked']);
    expect(desk.most).toBe(2);
  });

  it('a taken lock is told in its own form', async () => {
    openDesk(async () => 'done');
    await using lock = await replica(1).redlock.acquire(DESK, 10_000);

    const told = await rejection(replica(0).call(impatient.name, 'admin'));

    expect(told).toMatchObject(context.told.taken);
    expect(desk.visits).toEqual([]);
    expect(lock.isValid).toBe(true);
  });

  it('a lost lock aborts the handler, and is told in its own form', async () => {
    const reasons: unknown[] = [];
    openDesk(async () => {
      const signal = currentLock()?.signal;
      signal?.addEventListener('abort', () => reasons.push(signal.reason));
      await loseLock(nodes, currentLock());
      return 'done';
    });

    const told = await rejection(replica(0).call(impatient.name, 'admin'));

    expect(reasons).toEqual([expect.any(LockLostError)]);
    expect(told).toMatchObject(context.told.lost);
  });
});

describe.each(contexts.filter(({ told }) => told.forbidden !== undefined))(
  'a guard in $name',
  (context) => {
    it('keeps strangers out in all orders of decorators, before anything is locked', async () => {
      const orders = everyOrder(context);
      const desk = new Desk();
      const handlers = orders.map((operation) => handlerOf(context, operation, desk));
      const redis = await startRedisServer();
      afterTest(() => redis.stop());
      const running = await context.start(
        replicaOf(handlers, faultyNodes(), new Log(), redis.port),
      );
      afterTest(() => running.close());
      const told: unknown[] = [];

      // Whoever asked for the lock first would wait for it until the test fails.
      await using lock = await running.redlock.acquire(DESK, 30_000);
      for (const { name } of orders) {
        told.push(await rejection(running.call(name, 'stranger')));
      }
      expect(lock.isValid).toBe(true);

      expect(told).toMatchObject(orders.map(() => context.told.forbidden ?? {}));
      expect(desk.visits).toEqual([]);
    });
  },
);
