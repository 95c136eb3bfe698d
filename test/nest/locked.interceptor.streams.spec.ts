// `@Locked` endpoints that answer with streams, or go on after their answer: how long the lock lasts.
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';

import { describe, expect, it, jest } from '@jest/globals';
import {
  Controller,
  Get,
  NotFoundException,
  Res,
  StreamableFile,
  UseInterceptors,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { Locked, RedlockService } from 'nestjs-locked';
import { map, Observable, of, throwError, timer } from 'rxjs';
import { mergeMap, raceWith } from 'rxjs/operators';

import { eventually } from '../support/eventually.js';
import { Log, startServer, threeNodes } from './support/applications.js';
import { Gate, rejection, turn } from './support/events.js';
import { get } from './support/requests.js';

describe('a @Locked endpoint that answers with a stream', () => {
  let redlock: RedlockService;
  let states: string[] = [];
  let files: Readable[] = [];
  let leave = new Gate();

  /** Rows that say whether the export was locked when they were read. */
  async function* rows(): AsyncGenerator<Uint8Array> {
    for (let row = 0; row < 2; row += 1) {
      await turn();
      states.push((await redlock.inspect('export')).state);
      yield new TextEncoder().encode(`row ${row}, `);
    }
  }

  const file = () => new StreamableFile(Readable.from(rows()));

  /** A StreamableFile of another copy of Nest: nobody but us ends it where it is not sent. */
  const foreignFile = () => {
    const stream = Readable.from(rows());
    files.push(stream);
    return { getStream: () => stream, getHeaders: () => ({}), setErrorHandler: () => {} };
  };

  /** Changes the answer of the handler. */
  const answering = (change: (answer: unknown) => unknown): NestInterceptor => ({
    intercept: (_context, next) => next.handle().pipe(map(change)),
  });

  /** Outside of the scope. */
  const sending = answering((answer) => {
    if (answer instanceof ReadableStream) return 'nothing new';
    // Nest 11 sends no web streams.
    if (!(answer instanceof Response) || answer.body === null) return answer;
    if (!answer.ok) return 'nothing new';
    return new StreamableFile(Readable.from(answer.body));
  });

  const failing = answering(() => {
    throw new NotFoundException('in the commit');
  });

  const impatient: NestInterceptor = {
    intercept: (_context, next) => next.handle().pipe(raceWith(timer(20).pipe(mergeMap(tooLate)))),
  };
  const tooLate = () => throwError(() => new NotFoundException('too late'));

  @Controller()
  class Exports {
    @Get('observable')
    @Locked('export')
    observable(): Observable<StreamableFile> {
      return of(file());
    }

    @Get('later')
    @Locked('export')
    async later(): Promise<Observable<StreamableFile>> {
      return of(file());
    }

    @Get('mapped')
    @UseInterceptors(answering(file))
    @Locked('export')
    async mapped(): Promise<string> {
      return 'rows';
    }

    @Get('response')
    @Locked('export')
    async response(): Promise<Response> {
      return new Response(ReadableStream.from(rows()));
    }

    @Get('foreign-response')
    @Locked('export')
    async foreignResponse(): Promise<unknown> {
      const { status, headers, body } = new Response(ReadableStream.from(rows()));
      // As that of the package undici: another class by the same name.
      return { status, headers, body, [Symbol.toStringTag]: 'Response' };
    }

    @Get('failing')
    @UseInterceptors(failing)
    @Locked('export')
    async failing(): Promise<unknown> {
      return foreignFile();
    }

    @Get('replaced')
    @UseInterceptors(answering(() => 'nothing new'))
    @Locked('export')
    async replaced(): Promise<unknown> {
      return foreignFile();
    }

    @Get('late')
    @UseInterceptors(impatient)
    @Locked('export')
    async late(): Promise<unknown> {
      await leave.passed;
      return foreignFile();
    }

    @Get('late-feed')
    @UseInterceptors(impatient)
    @Locked('export')
    async lateFeed(): Promise<Observable<string>> {
      await leave.passed;
      return of('row');
    }

    @Get('unsent')
    @UseInterceptors(answering(() => new ReadableStream()))
    @Locked('export')
    async unsent(): Promise<string> {
      return 'rows';
    }

    @Get('unsent-response')
    @UseInterceptors(answering(() => new Response(new ReadableStream(), { status: 404 })))
    @Locked('export')
    async unsentResponse(): Promise<string> {
      return 'rows';
    }

    @Get('rewritten')
    @UseInterceptors(
      answering((answer) => {
        const source = (answer as StreamableFile).getStream();
        return new StreamableFile(Readable.from(source));
      }),
    )
    @Locked('export')
    async rewritten(): Promise<unknown> {
      return foreignFile();
    }
  }

  async function start(controllers: Type[] = [Exports]): Promise<string> {
    states = [];
    files = [];
    leave = new Gate();
    const providers = [{ provide: APP_INTERCEPTOR, useValue: sending }];
    const { url, application } = await startServer({ controllers, providers });
    redlock = application.get(RedlockService);
    return url;
  }

  const freed = () =>
    eventually(async () => (await redlock.inspect('export')).state === 'free', 2_000);

  it.each(['observable', 'later', 'mapped', 'response', 'foreign-response', 'rewritten'])(
    'is locked until that is sent: %s',
    async (path) => {
      const url = await start();

      expect((await get(url, `/${path}`)).body).toBe('row 0, row 1, ');
      expect(states).toEqual(['held', 'held']);
      await freed();
    },
  );

  it.each([
    ['failing', 404],
    ['replaced', 200],
  ])('ends a stream that is not sent, and its lock: %s', async (path, status) => {
    const url = await start();

    expect((await get(url, `/${path}`)).status).toBe(status);

    await freed();
    expect(files.map(({ destroyed }) => destroyed)).toEqual([true]);
  });

  it.each(['unsent', 'unsent-response'])('ends the lock of a web stream: %s', async (path) => {
    const url = await start();

    expect((await get(url, `/${path}`)).body).toBe('nothing new');

    await freed();
  });

  it('ends a stream that comes when another answer was given, and its lock', async () => {
    const url = await start();
    expect((await get(url, '/late')).status).toBe(404);

    leave.open();

    await freed();
    expect(files.map(({ destroyed }) => destroyed)).toEqual([true]);
  });

  it('ends the lock of an Observable that comes when another answer was given', async () => {
    const url = await start();
    expect((await get(url, '/late-feed')).status).toBe(404);

    leave.open();

    await freed();
  });

  it('ends that lock of another copy of the package too, such as ESM and CJS', async () => {
    jest.resetModules();
    const copy = await import('nestjs-locked');
    @Controller()
    class Feed {
      @Get('feed')
      @UseInterceptors(impatient)
      @copy.Locked('export')
      async feed(): Promise<Observable<string>> {
        await leave.passed;
        return of('row');
      }
    }
    const url = await start([Feed]);
    expect((await get(url, '/feed')).status).toBe(404);

    leave.open();

    await freed();
  });

  it.each(['response', 'stream'])(
    'cancels what a client that has gone will not read, and logs nothing: %s',
    async (path) => {
      let isCancelled = false;
      const source = () => new ReadableStream({ cancel: () => void (isCancelled = true) });
      let onStart: (response: ServerResponse) => void = () => {};
      const started = new Promise<ServerResponse>((resolve) => (onStart = resolve));
      @Controller()
      class Leaving {
        @Get('response')
        @Locked('export')
        async response(@Res({ passthrough: true }) response: ServerResponse): Promise<Response> {
          onStart(response);
          await leave.passed;
          return new Response(source());
        }

        @Get('stream')
        @Locked('export')
        async stream(@Res({ passthrough: true }) response: ServerResponse): Promise<unknown> {
          onStart(response);
          await leave.passed;
          return source();
        }
      }
      leave = new Gate();
      const log = new Log();
      const server = await startServer({ controllers: [Leaving] }, {}, threeNodes(), log);
      redlock = server.application.get(RedlockService);
      const client = new AbortController();
      const fetched = rejection(fetch(`${server.url}/${path}`, { signal: client.signal }));
      const response = await started;
      client.abort();
      await fetched;
      while (!response.closed) await turn();

      leave.open();

      await freed();
      await turn();
      expect(isCancelled).toBe(true);
      expect(log.lines.filter(([level]) => level !== 'log')).toEqual([]);
    },
  );
});
