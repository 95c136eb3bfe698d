/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// Transactions that interceptors open around `@Locked` handlers: which of them the lock outlasts.
import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  NotFoundException,
  Param,
  Post,
  UseInterceptors,
  type NestInterceptor,
} from '@nestjs/common';
import { currentLock, fromContext, Locked, LockedInterceptor, RedlockService } from 'nestjs-locked';
import { map } from 'rxjs';

import { startServer } from './support/applications.js';
import { requestOf, get } from './support/requests.js';
import { journal, note, Transaction, retriesAfter } from './support/interceptors.js';

/** Wraps a method, as many applications' own decorators do: what others keep on it is lost. */
function Forgetful(): MethodDecorator {
  return (_target, _key, descriptor) => {
    const method = descriptor.value as (...args: unknown[]) => Promise<unknown>;
    const wrapper = async function (this: unknown, ...args: unknown[]): Promise<unknown> {
      return method.apply(this, args);
    };
    Object.assign(descriptor, { value: wrapper });
  };
}

describe('the transaction around a @Locked handler', () => {
  @Controller()
  @UseInterceptors(Transaction)
  class Orders {
    readonly redlock: RedlockService;
    constructor(redlock: RedlockService) {
      this.redlock = redlock;
    }

    @Post('literal/:id')
    @Locked('order:7')
    async literal(): Promise<string> {
      await note(this.redlock, 'handler');
      return 'done';
    }

    @Post('context/:id')
    @Locked(fromContext((context) => `order:${requestOf(context).params.id}`))
    async context(): Promise<string> {
      await note(this.redlock, 'handler');
      return 'done';
    }

    @Post('wrapped/:id')
    @Forgetful()
    @Locked('order:7')
    async wrapped(): Promise<string> {
      await note(this.redlock, 'handler');
      return 'done';
    }

    @Post('wrapped-context/:id')
    @Forgetful()
    @Locked(fromContext((context) => `order:${requestOf(context).params.id}`))
    async wrappedContext(): Promise<string> {
      await note(this.redlock, 'handler');
      return 'done';
    }

    @Post('arguments/:id')
    @Locked((id: string) => `order:${id}`)
    async arguments(@Param('id') _id: string): Promise<string> {
      await note(this.redlock, 'handler');
      return 'done';
    }

    @Post('failing/:id')
    @Locked((id: string) => `order:${id}`)
    async failing(@Param('id') _id: string): Promise<string> {
      throw new NotFoundException('no such order');
    }
  }

  it.each([
    ['literal', ['begin held', 'handler held', 'commit held']],
    ['context', ['begin held', 'handler held', 'commit held']],
    ['wrapped', ['begin held', 'handler held', 'commit held']],
    ['wrapped-context', ['begin held', 'handler held', 'commit held']],
    ['arguments', ['begin free', 'handler held', 'commit held']],
  ])('commits inside the lock of a %s resource', async (path, expected) => {
    journal.length = 0;
    const { url, application } = await startServer({ controllers: [Orders] });

    const { status, body } = await get(url, `/${path}/7`, { method: 'POST' });

    expect([status, body]).toEqual([201, 'done']);
    expect(journal).toEqual(expected);
    expect(await application.get(RedlockService).inspect('order:7')).toMatchObject({
      state: 'free',
    });
  });

  it.each(['literal', 'wrapped', 'wrapped-context'])(
    'commits inside the lock of an inherited handler: %s',
    async (path) => {
      journal.length = 0;
      @Controller()
      class InheritedOrders extends Orders {}
      const { url } = await startServer({ controllers: [InheritedOrders] });

      const { status, body } = await get(url, `/${path}/7`, { method: 'POST' });

      expect([status, body]).toEqual([201, 'done']);
      expect(journal).toEqual(['begin held', 'handler held', 'commit held']);
    },
  );

  it.each(['literal', 'context'])(
    'commits inside the lock of a handler that the constructor has bound: %s',
    async (path) => {
      journal.length = 0;
      @Controller()
      class BoundOrders extends Orders {
        constructor(redlock: RedlockService) {
          super(redlock);
          this.literal = this.literal.bind(this);
          this.context = this.context.bind(this).bind(this);
        }
      }
      const { url } = await startServer({ controllers: [BoundOrders] });

      const { status, body } = await get(url, `/${path}/7`, { method: 'POST' });

      expect([status, body]).toEqual([201, 'done']);
      expect(journal).toEqual(['begin held', 'handler held', 'commit held']);
    },
  );

  it('commits inside the lock of a handler that the constructor has wrapped, metadata and all', async () => {
    journal.length = 0;
    @Controller()
    class TracedOrders extends Orders {
      constructor(redlock: RedlockService) {
        super(redlock);
        const { literal } = this;
        this.literal = (...args) => Reflect.apply(literal, this, args);
        for (const key of Reflect.getMetadataKeys(literal) as unknown[]) {
          Reflect.defineMetadata(key, Reflect.getMetadata(key, literal), this.literal);
        }
      }
    }
    const { url } = await startServer({ controllers: [TracedOrders] });

    const { status, body } = await get(url, '/literal/7', { method: 'POST' });

    expect([status, body]).toEqual([201, 'done']);
    expect(journal).toEqual(['begin held', 'handler held', 'commit held']);
  });

  it('rolls back inside the lock, and the error is the very one', async () => {
    journal.length = 0;
    const { url, application } = await startServer({ controllers: [Orders] });

    const { status, body } = await get(url, '/failing/7', { method: 'POST' });

    expect([status, JSON.parse(body)]).toEqual([
      404,
      expect.objectContaining({ message: 'no such order' }),
    ]);
    expect(journal).toEqual(['begin free', 'rollback held']);
    expect((await application.get(RedlockService).status()).held).toBe(0);
  });

  it.each([
    ['literal', 'order:7'],
    ['context', fromContext(() => 'order:7')],
    ['arguments', () => 'order:7'],
  ])("has the handler's fencing token when it commits: %s", async (_kind, resource) => {
    const token = (): string => String(currentLock()?.fencingToken);
    const committing: NestInterceptor = {
      intercept: (_context, next) =>
        next.handle().pipe(map((inHandler: unknown) => [inHandler, token()])),
    };
    @Controller()
    class Stock {
      @Get()
      @UseInterceptors(committing)
      @Locked(resource)
      async take(): Promise<string> {
        return token();
      }
    }
    const { url } = await startServer({ controllers: [Stock] });

    const { body } = await get(url, '/');

    expect(body).toMatch(/^\["(\d+)","\1"\]$/);
  });

  it('commits inside the lock of a retry whose first try found it taken', async () => {
    journal.length = 0;
    let release = (): Promise<void> => Promise.resolve();
    const Patient = retriesAfter(() => release());
    @Controller()
    @UseInterceptors(Transaction, Patient)
    class Retried {
      @Post(':id')
      @Locked((id: string) => `order:${id}`, { wait: 0 })
      async pay(@Param('id') _id: string): Promise<string> {
        return 'done';
      }
    }
    const { url, application } = await startServer({ controllers: [Retried] });
    const others = await application.get(RedlockService).acquire('order:7');
    release = () => others.release();

    const { body } = await get(url, '/7', { method: 'POST' });

    expect(body).toBe('done');
    // At the beginning others still held it.
    expect(journal).toEqual(['begin held', 'commit held']);
  });

  it.each(['literal', 'arguments'])(
    'commits inside the lock of a retry after an onTaken that throws: %s',
    async (path) => {
      journal.length = 0;
      let release = (): Promise<void> => Promise.resolve();
      const busy = (): never => {
        throw new NotFoundException('busy');
      };
      const Patient = retriesAfter(() => release());
      @Controller()
      @UseInterceptors(Transaction, Patient)
      class Retried {
        @Post('literal/:id')
        @Locked('order:7', { wait: 0, onTaken: busy })
        async literal(): Promise<string> {
          return 'done';
        }

        @Post('arguments/:id')
        @Locked((id: string) => `order:${id}`, { wait: 0, onTaken: busy })
        async arguments(@Param('id') _id: string): Promise<string> {
          return 'done';
        }
      }
      const { url, application } = await startServer({ controllers: [Retried] });
      const others = await application.get(RedlockService).acquire('order:7');
      release = () => others.release();

      const { body } = await get(url, `/${path}/7`, { method: 'POST' });

      expect(body).toBe('done');
      expect(journal).toEqual(['begin held', 'commit held']);
    },
  );

  it('is outside a lock that the handler takes itself when the interceptor is off', async () => {
    journal.length = 0;
    const { url } = await startServer({ controllers: [Orders] }, { interceptor: false });

    expect((await get(url, '/literal/7', { method: 'POST' })).status).toBe(201);
    expect(journal).toEqual(['begin free', 'handler held', 'commit free']);
  });

  it('needs the interceptor for fromContext, and says so', async () => {
    journal.length = 0;
    const { url } = await startServer({ controllers: [Orders] }, { interceptor: false });

    expect((await get(url, '/context/7', { method: 'POST' })).status).toBe(500);
    expect(journal).toEqual(['begin free', 'rollback free']);
  });

  it('is in the lock of an interceptor bound by hand', async () => {
    journal.length = 0;
    @Controller()
    @UseInterceptors(LockedInterceptor, Transaction)
    class ByHand {
      @Post('by-hand/:id')
      @Locked('order:7')
      async literal(): Promise<string> {
        return 'done';
      }
    }
    const { url } = await startServer({ controllers: [ByHand] }, { interceptor: false });

    expect((await get(url, '/by-hand/7', { method: 'POST' })).status).toBe(201);
    expect(journal).toEqual(['begin held', 'commit held']);
  });
});
