import { expect } from '@jest/globals';
import { Controller, Get, HttpCode, type INestApplication } from '@nestjs/common';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { TestingModule } from '@nestjs/testing';

import { listen, type Context, type Replica, type Running } from './context.js';

/** Controllers on Express. */
export const express = http('HTTP on Express', (module) =>
  module.createNestApplication({ forceCloseConnections: true }),
);

/** Controllers on Fastify. */
export const fastify = http('HTTP on Fastify', (module) =>
  module.createNestApplication(new FastifyAdapter({ forceCloseConnections: true })),
);

function http(name: string, create: (module: TestingModule) => INestApplication): Context {
  return {
    name,
    methodName: 'handle',
    classDecorators: () => [Controller()],
    // What the context keeps on the method: its route, and the status.
    methodDecorators: (operation) => [Get(operation), HttpCode(202)],
    start: (replica) => start(replica, create),
    told: {
      forbidden: { status: 403, body: { message: 'Forbidden resource' } },
      taken: { status: 423, retryAfter: expect.any(String), body: { error: 'LOCK_TAKEN' } },
      lost: { status: 500, body: { error: 'LOCK_LOST' } },
    },
  };
}

async function start(
  { build, handlers }: Replica,
  create: (module: TestingModule) => INestApplication,
): Promise<Running> {
  const module = await build({ controllers: [...handlers] }).compile();
  return listen(create(module), (url) => async (operation, role) => {
    const response = await fetch(`${url}/${operation}`, { headers: { role } });
    const { status } = response;
    const body = await response.text();
    if (status === 202) return body;
    const retryAfter = response.headers.get('retry-after');
    // eslint-disable-next-line @typescript-eslint/only-throw-error -- an answer is no Error
    throw { status, retryAfter, body: JSON.parse(body) as unknown };
  });
}
