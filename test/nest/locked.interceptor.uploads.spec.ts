// When a multipart body is read that an inner interceptor reads, as docs/CONTEXTS.md says.
import { connect, type Socket } from 'node:net';

import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Param,
  Post,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { FileInterceptor } from '@nestjs/platform-express';
import { fromContext, Locked } from 'nestjs-locked';
import type { Observable } from 'rxjs';

import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { startEndpoints } from './support/endpoints.js';
import { requestOf } from './support/requests.js';

/** Tells when an upload is about to be read. */
class Begin implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    bodies.push(Reflect.get(requestOf(context), 'body'));
    return next.handle();
  }
}

@Controller()
@UseInterceptors(Begin, FileInterceptor('file'))
class Endpoints {
  @Post('literal')
  @Locked('endpoint')
  async literal(): Promise<void> {}

  @Post('context')
  @Locked(fromContext((context) => String(Reflect.get(requestOf(context), 'body') ?? 'endpoint')))
  async context(): Promise<void> {}

  @Post('argument/:name')
  @Locked((name: string) => name)
  async argument(@Param('name') name: string): Promise<void> {
    expect(name).toBe('endpoint');
  }
}

const bodies: unknown[] = [];

beforeEach(() => {
  bodies.length = 0;
});

const rest = `${'x'.repeat(100_000)}\r\n--end--\r\n`;

/** A client that stands still in the middle of its upload. */
async function beginUpload(url: string, path: string): Promise<Socket> {
  const begin =
    '--end\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' +
    'x'.repeat(100_000);
  const client = connect(Number(new URL(url).port), '127.0.0.1');
  afterTest(() => void client.destroy());
  const head = [
    `POST ${path} HTTP/1.1`,
    'Host: localhost',
    'Content-Type: multipart/form-data; boundary=end',
    `Content-Length: ${begin.length + rest.length}`,
  ];
  await new Promise((sent) => client.write(`${head.join('\r\n')}\r\n\r\n${begin}`, sent));
  return client;
}

describe('a @Locked endpoint behind a FileInterceptor', () => {
  it.each(['/literal', '/context'])('is locked while a client uploads to it: %s', async (path) => {
    const { url, isFree, freed } = await startEndpoints(Endpoints);

    const client = await beginUpload(url, path);
    await eventually(() => bodies.length > 0);
    expect(await isFree()).toBe(false);
    expect(bodies).toEqual([undefined]);
    client.write(rest);

    await freed();
  });

  it('releases when the client breaks off its upload', async () => {
    const { url, isFree, freed } = await startEndpoints(Endpoints);

    const client = await beginUpload(url, '/literal');
    await eventually(() => bodies.length > 0);
    expect(await isFree()).toBe(false);
    client.destroy();

    await freed();
  });

  it('is locked after the upload where the resource is a function of the arguments', async () => {
    const { url, redlock } = await startEndpoints(Endpoints);
    const answers: string[] = [];

    const client = await beginUpload(url, '/argument/endpoint');
    client.on('data', (data) => answers.push(data.toString()));
    await eventually(() => bodies.length > 0);
    await redlock.using('endpoint', async () => {
      client.write(rest);
      await eventually(() => answers.join('').includes('423'));
    });
  });
});
