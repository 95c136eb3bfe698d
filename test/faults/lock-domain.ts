// Some real servers, and applications that lock over them as a user's does.
import { Module, type INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { RedlockModule, RedlockService } from 'nestjs-locked';
import type { NodeInput, RedlockModuleOptions } from 'nestjs-locked';

import { startRedisServers, type RedisServer } from '../support/redis-servers.js';

/** A server, and a client of the test beside the locks' own. */
export interface ObservedServer extends RedisServer {
  readonly client: Redis;
}

/** Starts servers, each with a client. */
export async function startObserved(count: number): Promise<ObservedServer[]> {
  const servers = await startRedisServers(count);
  return servers.map((server) => {
    const client = new Redis(server.url, { enableReadyCheck: false });
    client.on('error', () => undefined);
    return Object.assign(server, { client });
  });
}

/** Stops them. */
export async function stopObserved(servers: readonly ObservedServer[]): Promise<void> {
  for (const { client } of servers) client.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
}

/** An application that does nothing but lock. */
export interface LockingApplication {
  readonly app: INestApplicationContext;
  readonly redlock: RedlockService;
}

/** Starts one; without quarantine, unless the options say otherwise, as new nodes are new. */
export async function startApplication(
  nodes: readonly NodeInput[],
  options: RedlockModuleOptions = {},
): Promise<LockingApplication> {
  const settings = { quarantine: false, interceptor: false, ...options };
  @Module({ imports: [RedlockModule.forRoot(nodes, settings)] })
  class LockingModule {}
  const app = await NestFactory.createApplicationContext(LockingModule, { logger: false });
  return { app, redlock: app.get(RedlockService) };
}

/** The locks that a server keeps. */
export async function locksOn({ client }: ObservedServer): Promise<string[]> {
  const keys = await client.keys('*');
  return keys.filter((key) => !key.startsWith('redlock:'));
}
