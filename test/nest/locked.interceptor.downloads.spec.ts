// `@Locked` endpoints that send events or files: locked until the client has them.
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  Res,
  Sse,
  StreamableFile,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type MessageEvent,
  type NestInterceptor,
} from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { concat, defer, merge, Observable, of, Subject, throwError } from 'rxjs';
import { map, mergeMap, shareReplay, take } from 'rxjs/operators';

import { Gate, turn } from './support/events.js';
import { get } from './support/requests.js';
import { startEndpoints } from './support/endpoints.js';

describe('a @Locked endpoint of server-sent events', () => {
  let events = new Subject<MessageEvent>();
  const busy = new Gate();

  @Injectable()
  class Failing implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const failure = throwError(() => new Error('while the handler goes on'));
      const failing = defer(() => busy.passed).pipe(
        mergeMap(() => concat(of({ data: 'one' }), failure)),
      );
      return merge(next.handle(), failing);
    }
  }

  @Controller()
  class Endpoints {
    @Sse('events')
    @Locked('endpoint')
    events(): Observable<MessageEvent> {
      return events;
    }

    @Sse('burst')
    @Locked('endpoint')
    burst(): Observable<MessageEvent> {
      return of({ data: 'one' }, { data: 'two' }, { data: 'three' });
    }

    @Sse('events/failing')
    @UseInterceptors(Failing)
    @Locked('endpoint')
    eventsFailing(): Observable<MessageEvent> {
      return new Observable(() => busy.open());
    }
  }

  it('holds its lock until server-sent events are over, or the client is gone', async () => {
    const { url, isFree, freed } = await startEndpoints(Endpoints);
    const client = new AbortController();
    events = new Subject();
    const response = await fetch(`${url}/events`, { signal: client.signal });
    const reader = response.body?.getReader();
    while (!events.observed) await turn();
    events.next({ data: 'one' });
    await reader?.read();
    expect(await isFree()).toBe(false);

    client.abort();

    await freed();
    expect(events.observed).toBe(false);
  });

  it('sends each event as soon as it is there', async () => {
    const { url } = await startEndpoints(Endpoints);
    const client = new AbortController();
    events = new Subject();
    const response = await fetch(`${url}/events`, { signal: client.signal });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    while (!events.observed) await turn();

    events.next({ data: 'one' });
    let received = '';
    while (!received.includes('data: one')) received += (await reader?.read())?.value ?? '';

    expect(events.observed).toBe(true);
    client.abort();
  });

  it.each([
    ['several come at a time', '/burst', ['one', 'two', 'three']],
    ['an error comes with it', '/events/failing', ['one', 'Internal server error']],
  ])('sends each event once where %s', async (_case, path, expected) => {
    const { url } = await startEndpoints(Endpoints);

    const { body } = await get(url, path);

    const sent = [...body.matchAll(/^data: (.*)$/gm)].map(([, data]) => data);
    expect(sent).toEqual(expected);
  });
});

describe('a @Locked endpoint that sends a file', () => {
  let stream = new Readable();

  @Controller()
  class Endpoints {
    @Get('file')
    @Locked('endpoint')
    async file(): Promise<StreamableFile> {
      return new StreamableFile(stream);
    }

    @Get('piped')
    @Locked('endpoint')
    async piped(@Res() response: ServerResponse): Promise<void> {
      stream.pipe(response);
    }

    @Get('piped-to-the-end')
    @Locked('endpoint')
    async pipedToTheEnd(@Res() response: ServerResponse): Promise<void> {
      await pipeline(stream, response);
    }
  }

  it('holds its lock until the file is sent', async () => {
    const { url, isFree, freed } = await startEndpoints(Endpoints);
    stream = new Readable({ read: () => {} });
    stream.push('first');
    const response = await fetch(`${url}/file`);
    const reader = response.body?.getReader();
    await reader?.read();
    expect(await isFree()).toBe(false);

    stream.push(null);

    expect((await reader?.read())?.done).toBe(true);
    await freed();
  });

  it('releases while a handler with @Res() still writes, unless it waits for that', async () => {
    const { url, isFree, freed } = await startEndpoints(Endpoints);
    const begin = async (path: string) => {
      stream = new Readable({ read: () => {} });
      stream.push('first');
      const reader = (await fetch(url + path)).body?.getReader();
      await reader?.read();
      return async () => {
        stream.push(null);
        while ((await reader?.read())?.done === false) await turn();
      };
    };

    const endPiped = await begin('/piped');
    await freed();
    expect(stream.readableEnded).toBe(false);
    await endPiped();
    const endAwaited = await begin('/piped-to-the-end');
    expect(await isFree()).toBe(false);
    await endAwaited();

    await freed();
  });

  it('releases when the client breaks off a download', async () => {
    const { url, freed } = await startEndpoints(Endpoints);
    const client = new AbortController();
    stream = new Readable({ read: () => {} });
    stream.push('first');
    const response = await fetch(`${url}/file`, { signal: client.signal });
    await response.body?.getReader().read();

    client.abort();

    await freed();
  });
});

describe('a @Locked endpoint whose stream an interceptor reads itself', () => {
  let stream = new Readable();
  let begin: (stream: Readable) => unknown = () => undefined;

  @Injectable()
  class Reading implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<string> {
      const answer = (file: StreamableFile): string => {
        begin(file.getStream());
        return 'begun';
      };
      return next.handle().pipe(map(answer));
    }
  }

  const rest = new Subject<string>();

  @Injectable()
  class FirstOfAll implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      // Goes on with the rest when nobody listens any more.
      return next.handle().pipe(shareReplay(1), take(1));
    }
  }

  @Controller()
  class Imports {
    @Get('import')
    @UseInterceptors(Reading)
    @Locked('endpoint')
    async import(): Promise<unknown> {
      // A StreamableFile of another copy of Nest: Nest itself does not end it.
      return { getStream: () => stream, getHeaders: () => ({}), setErrorHandler: () => {} };
    }

    @Get('first')
    @UseInterceptors(FirstOfAll)
    @Locked('endpoint')
    async first(): Promise<Observable<string>> {
      return concat(of('first'), rest);
    }
  }

  it.each<[how: string, (stream: Readable) => unknown]>([
    ['as data comes, of which there is none yet', (read) => read.resume()],
    ['bit by bit', (read) => void read.read()],
  ])('is locked until it has been read, also after the answer: %s', async (how, beginToRead) => {
    const { url, isFree, freed } = await startEndpoints(Imports);
    stream = new Readable({ read: () => {} });
    if (how === 'bit by bit') stream.push('first');
    begin = beginToRead;

    const { body } = await get(url, '/import');
    await turn();
    expect([body, stream.destroyed, await isFree()]).toEqual(['begun', false, false]);
    stream.push(null);
    stream.resume();

    await freed();
  });

  it('is locked until the last value of an Observable, also after an answer with the first', async () => {
    const { url, isFree, freed } = await startEndpoints(Imports);

    const { body } = await get(url, '/first');
    await turn();
    expect([body, rest.observed, await isFree()]).toEqual(['first', true, false]);
    rest.complete();

    await freed();
  });
});
