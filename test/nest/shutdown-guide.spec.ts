// What docs/OPERATIONS.md says of servers that wait for their clients at a shutdown.
import { describe, expect, it } from '@jest/globals';
import { Module, type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';

import { afterTest } from '../support/after-test.js';

@Module({})
class Empty {}

/** How long a connection is kept after an answer, in ms. */
function keepAliveTimeoutOf(application: INestApplication): unknown {
  afterTest(() => application.close());
  return (application.getHttpServer() as { keepAliveTimeout: unknown }).keepAliveTimeout;
}

describe('the keepAliveTimeout of a server', () => {
  it('is 5 s on Express', async () => {
    const application = await NestFactory.create(Empty, { logger: false });
    await application.listen(0, '127.0.0.1');

    expect(keepAliveTimeoutOf(application)).toBe(5_000);
  });

  it.each([
    ['72 s on Fastify', new FastifyAdapter(), 72_000],
    ['what its adapter is given', new FastifyAdapter({ keepAliveTimeout: 5_000 }), 5_000],
  ])('is %s', async (_which, adapter, expected) => {
    const application = await NestFactory.create(Empty, adapter, { logger: false });
    await application.listen(0, '127.0.0.1');

    expect(keepAliveTimeoutOf(application)).toBe(expected);
  });
});
