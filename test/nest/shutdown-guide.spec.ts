// What docs/OPERATIONS.md says of servers that wait for their clients at a shutdown.
import { Agent, get } from 'node:http';

import { describe, expect, it } from '@jest/globals';
import * as common from '@nestjs/common';
import { Controller, Get, Module, type INestApplication, type Type } from '@nestjs/common';
import * as core from '@nestjs/core';
import { NestFactory, type AbstractHttpAdapter } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';

import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { loadGuide } from '../support/guides.js';

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

describe('a server whose client sends one request after the other on one connection', () => {
  const { LastAnswers } = loadGuide(
    'OPERATIONS.md',
    { '@nestjs/common': common, '@nestjs/core': core },
    1,
  ) as { readonly LastAnswers: Type };

  let isAsked = false;

  @Controller()
  class Endpoint {
    @Get()
    async answer(): Promise<void> {
      isAsked = true;
      await new Promise((resolve) => setTimeout(resolve, 50));
      isAsked = false;
    }
  }

  /** An application whose client asks until `stop`, or until it is not answered. */
  async function startAsked(adapter: AbstractHttpAdapter, providers: Type[] = []) {
    const module = { module: Empty, controllers: [Endpoint], providers };
    const application = await NestFactory.create(module, adapter, { logger: false });
    await application.listen(0, '127.0.0.1');
    const url = await application.getUrl();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    let answers = 0;
    let isStopped = false;
    const ask = (): void => {
      if (isStopped) return agent.destroy();
      const request = get(url, { agent }, (response) => {
        answers += 1;
        response.resume().on('end', ask);
      });
      request.on('error', () => agent.destroy());
    };
    ask();
    await eventually(() => answers > 0 && isAsked);
    const stop = (): void => void (isStopped = true);
    afterTest(stop);
    return { application, stop, answers: () => answers };
  }

  it('is not closed by Express before that client stops', async () => {
    const { application, answers, stop } = await startAsked(new ExpressAdapter());
    let isClosed = false;

    const closed = application.close().then(() => (isClosed = true));
    const atClose = answers();
    await eventually(() => answers() > atClose + 5);
    expect(isClosed).toBe(false);
    stop();

    await closed;
  });

  it.each([
    ['by Express with the provider of the guide', () => new ExpressAdapter(), [LastAnswers]],
    ['by Fastify', () => new FastifyAdapter(), []],
  ])('is closed %s', async (_how, adapterOf, providers) => {
    const { application } = await startAsked(adapterOf(), providers);

    await expect(application.close()).resolves.toBeUndefined();
  });
});
