// When the answer of a @Locked endpoint is sent, and what it is.
import { gzipSync } from 'node:zlib';

import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  NotFoundException,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { Locked, LockedInterceptor, RedlockService } from 'nestjs-locked';
import { defer, lastValueFrom, type Observable } from 'rxjs';
import { finalize, map } from 'rxjs/operators';

import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { startModule, startServer } from './support/applications.js';
import { faultyNodes } from './support/faulty-nodes.js';
import { startEndpoints } from './support/endpoints.js';
import { rejection, turn } from './support/events.js';
import { get } from './support/requests.js';

describe('the answer of a @Locked endpoint', () => {
  it.each(['literal', 'arguments', 'failing'])(
    'waits for the release of its lock: %s',
    async (kind) => {
      const nodes = faultyNodes();
      const hang = (): void => {
        for (const node of nodes) node.hang();
      };
      @Controller()
      class Hanging {
        @Get('literal')
        @Locked('hanging')
        async literal(): Promise<void> {
          hang();
        }

        @Get('arguments')
        @Locked(() => 'hanging')
        async arguments(): Promise<void> {
          hang();
        }

        @Get('failing')
        @Locked('hanging')
        async failing(): Promise<void> {
          hang();
          throw new NotFoundException('nothing here');
        }
      }
      let isAnswered = false;
      const outer: NestInterceptor = {
        intercept: (_context, next) => next.handle().pipe(finalize(() => (isAnswered = true))),
      };
      const providers = [{ provide: APP_INTERCEPTOR, useValue: outer }];
      // Time stands still, so that nobody gives the nodes up.
      const options = { environment: new SimulatedEnvironment() };
      const { url } = await startServer({ controllers: [Hanging], providers }, options, nodes);

      const answer = get(url, `/${kind}`);
      while (nodes.some((node) => node.count('release') === 0)) await turn();
      await turn();
      expect(isAnswered).toBe(false);
      for (const node of nodes) node.heal();

      expect((await answer).status).toBe(kind === 'failing' ? 404 : 200);
    },
  );

  it('is what it has fetched, decoded', async () => {
    @Controller()
    class Proxy {
      @Get('compressed')
      async compressed(): Promise<Response> {
        const headers = { 'Content-Encoding': 'gzip' };
        return new Response(new Uint8Array(gzipSync('rows')), { headers });
      }

      @Get()
      @Locked('page')
      async fetched(): Promise<Response> {
        return fetch(`${url}/compressed`);
      }
    }
    const { url } = await startServer({ controllers: [Proxy] });

    expect((await get(url, '/')).body).toBe('rows');
  });

  it('knows its lock where the rows of a Response are made', async () => {
    @Controller()
    class Exports {
      readonly redlock: RedlockService;
      constructor(redlock: RedlockService) {
        this.redlock = redlock;
      }

      @Get()
      @Locked('export')
      async export(): Promise<Response> {
        return new Response(ReadableStream.from(this.rows()));
      }

      private async *rows(): AsyncGenerator<Uint8Array> {
        const again = this.redlock.using('export', () => 'ran');
        yield new TextEncoder().encode(String(await rejection(again)));
      }
    }
    const { url } = await startServer({ controllers: [Exports] });

    expect((await get(url, '/')).body).toContain('already holds "export"');
  });

  it('may be a Response without a body', async () => {
    @Controller()
    class Orders {
      @Get()
      @Locked('order')
      async place(): Promise<Response> {
        return new Response(null, { status: 204 });
      }
    }
    const { url, application } = await startServer({ controllers: [Orders] });

    expect(await get(url, '/')).toMatchObject({ status: 204, body: '' });
    expect((await application.get(RedlockService).inspect('order')).state).toBe('free');
  });
});

describe('the answer to a call by a library or by an interceptor, not by Nest', () => {
  @Injectable()
  class Orders {
    @Locked('order')
    async place(): Promise<string> {
      return 'placed';
    }
  }

  async function start() {
    const module = await startModule({ providers: [Orders, LockedInterceptor] });
    const orders = module.get(Orders);
    // No stream of Node.
    const context = new ExecutionContextHost([{}, new Response()], Orders, orders.place);
    const interceptor = module.get(LockedInterceptor);
    return {
      orders,
      respond: (handle: CallHandler['handle']) =>
        lastValueFrom(interceptor.intercept(context, { handle })),
      order: () => module.get(RedlockService).inspect('order'),
    };
  }

  it('may be given by a server whose responses are no streams of Node', async () => {
    const { orders, respond, order } = await start();

    expect(await respond(() => defer(() => orders.place()))).toBe('placed');
    expect((await order()).state).toBe('free');
  });

  it('is the error that its handler throws at once', async () => {
    const { respond, order } = await start();
    const failure = new Error('thrown at once');

    const error = await rejection(
      respond(() => {
        throw failure;
      }),
    );

    expect(error).toBe(failure);
    expect((await order()).state).toBe('free');
  });
});

describe('an answer that throws when it is asked for what it does not have', () => {
  const strict = (): object =>
    new Proxy(
      {},
      {
        get: (_target, key) => {
          if (key === 'then') return undefined;
          throw new Error(`there is no ${String(key)}`);
        },
      },
    );

  @Injectable()
  class Stricter implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return next.handle().pipe(map(strict));
    }
  }

  @Controller()
  class Strict {
    @Get('literal')
    @Locked('endpoint')
    async literal(): Promise<object> {
      return strict();
    }

    @Get('arguments')
    @Locked(() => 'endpoint')
    async arguments(): Promise<object> {
      return strict();
    }

    @Get('mapped')
    @UseInterceptors(Stricter)
    @Locked('endpoint')
    async mapped(): Promise<void> {}
  }

  it.each(['literal', 'arguments', 'mapped'])('leaves no lock behind: %s', async (path) => {
    const { url, freed } = await startEndpoints(Strict);

    expect((await get(url, `/${path}`)).status).toBe(500);
    await freed();
  });
});
