/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// Unary calls of gRPC whose clients do not wait for their lock as long as the server would: Nest
// runs them whether or not somebody is there.
import { EventEmitter } from 'node:events';

import { describe, expect, it } from '@jest/globals';
import { Controller } from '@nestjs/common';
import {
  GrpcMethod,
  Server,
  Transport,
  type CustomTransportStrategy,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { fromContext, Locked, MemoryNode, RedlockModule, RedlockService } from 'nestjs-locked';
import { lastValueFrom, type Observable } from 'rxjs';

import { afterTest } from '../../support/after-test.js';
import { eventually } from '../../support/eventually.js';
import { Log } from '../support/applications.js';

interface Order {
  readonly name: string;
}

const ran: string[] = [];

@Controller()
class Orders {
  @GrpcMethod('Orders', 'literal')
  @Locked('order')
  async literal(_order: Order): Promise<void> {
    ran.push('literal');
  }

  @GrpcMethod('Orders', 'context')
  @Locked(fromContext((context) => context.switchToRpc().getData<Order>().name))
  async context(_order: Order): Promise<void> {
    ran.push('context');
  }

  @GrpcMethod('Orders', 'arguments')
  @Locked(({ name }: Order) => name)
  async arguments(_order: Order): Promise<void> {
    ran.push('arguments');
  }
}

/** A unary call, as gRPC's server gives it to its handler. */
class Call extends EventEmitter {
  cancelled = false;

  cancel(): void {
    this.cancelled = true;
    this.emit('cancelled', 'cancelled');
  }
}

/** Calls handlers as Nest's server for gRPC does, which needs a package that is not installed. */
class Grpc extends Server implements CustomTransportStrategy {
  override readonly transportId = Transport.GRPC;

  listen(callback: () => void): void {
    callback();
  }

  close(): void {}

  on(): void {}

  unwrap(): never {
    throw new Error('There is no server inside');
  }

  async call(rpc: string, call: Call): Promise<unknown> {
    const pattern = JSON.stringify({ service: 'Orders', rpc, streaming: 'no_stream' });
    const handler = this.getHandlerByPattern(pattern) as unknown as Handler;
    const answer = this.transformToObservable(await handler({ name: 'order' }, {}, call));
    return lastValueFrom(answer, { defaultValue: undefined });
  }
}

type Handler = (order: Order, metadata: object, call: Call) => Promise<Observable<unknown>>;

async function start() {
  ran.length = 0;
  const log = new Log();
  const module = await Test.createTestingModule({
    imports: [RedlockModule.forRoot([new MemoryNode()], { wait: 60_000 })],
    controllers: [Orders],
  })
    .setLogger(log)
    .compile();
  const grpc = new Grpc();
  const service = module.createNestMicroservice<MicroserviceOptions>({ strategy: grpc });
  await service.listen();
  afterTest(() => service.close());
  const redlock = service.get(RedlockService);
  const waiting = async (): Promise<number> => (await redlock.status()).waiting;
  return { grpc, redlock, waiting, log };
}

describe.each(['literal', 'context', 'arguments'])('a unary gRPC call, by its %s', (rpc) => {
  it('leaves the queue when it is cancelled, and does not run', async () => {
    const { grpc, redlock, waiting, log } = await start();
    const lock = await redlock.acquire('order', 30_000);
    const cancelled = new Call();
    const answer = grpc.call(rpc, cancelled).catch(() => 'gone');
    await eventually(async () => (await waiting()) === 1);

    cancelled.cancel();

    expect(await answer).toBe('gone');
    await eventually(async () => (await waiting()) === 0);
    await lock.release();
    await grpc.call(rpc, new Call());
    expect(ran).toEqual([rpc]);
    expect(log.lines.filter(([level]) => level !== 'log')).toEqual([]);
  });

  it('does not run when it was cancelled before', async () => {
    const { grpc, redlock } = await start();
    await using lock = await redlock.acquire('order', 30_000);
    const cancelled = new Call();
    cancelled.cancel();

    await expect(grpc.call(rpc, cancelled)).rejects.toEqual({
      status: 'error',
      message: 'Internal server error',
    });

    expect(lock.isValid).toBe(true);
    expect(ran).toEqual([]);
    expect(await redlock.status()).toMatchObject({ held: 1, waiting: 0 });
  });

  it('is no longer watched when it is answered', async () => {
    const { grpc } = await start();
    const call = new Call();
    const watched: unknown[] = [];
    call.on('newListener', (event) => watched.push(event));

    await grpc.call(rpc, call);

    expect(watched).toContain('cancelled');
    expect(call.listenerCount('cancelled')).toBe(0);
  });
});
