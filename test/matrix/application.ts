// What check-matrix.mjs compiles, type-checks and runs in every combination: the library, all of
// its entry points, as an application of a user has it.
import 'reflect-metadata';

import { deepEqual, equal, ok } from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';

import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TerminusModule } from '@nestjs/terminus';
import { Redis } from 'ioredis';
import {
  currentLock,
  Locked,
  LockTakenError,
  NoQuorumError,
  RedlockModule,
  RedlockService,
} from 'nestjs-locked';
import { RedlockTelemetryModule } from 'nestjs-locked/opentelemetry';
import { RedlockHealthIndicator } from 'nestjs-locked/terminus';
import { FaultyNode } from 'nestjs-locked/testing';

@Injectable()
class Work {
  inside = 0;

  @Locked((value: number) => `work:${value % 1}`, 5_000)
  async double(value: number): Promise<number> {
    this.inside += 1;
    equal(this.inside, 1, 'two calls ran at once');
    deepEqual(currentLock()?.resources, ['work:0']);
    await setImmediate();
    this.inside -= 1;
    return value * 2;
  }
}

/** Locks by decorator and by hand: over a URL, a client of the application and a faulty node. */
export async function run(): Promise<void> {
  const url = process.env.REDIS_URL ?? '';
  for (const node of [url, new Redis(url), new FaultyNode()]) {
    const told = new Set<string>();
    const resourceClass = (resource: string): string => {
      told.add(resource);
      return 'any';
    };
    // Several runs share the server.
    const locks = RedlockModule.forRoot([node], { keyPrefix: `${process.pid}:` });
    const telemetry = RedlockTelemetryModule.forRoot({ resourceClass });
    @Module({
      imports: [locks, telemetry, TerminusModule],
      providers: [Work, RedlockHealthIndicator],
    })
    class AppModule {}

    const logger = ['error', 'warn'] as const;
    const options = { logger: [...logger], abortOnError: false };
    const application = await NestFactory.createApplicationContext(AppModule, options);
    const work = application.get(Work);
    const redlock = application.get(RedlockService);
    const health = application.get(RedlockHealthIndicator);
    deepEqual(await Promise.all([1, 2, 3].map((value) => work.double(value))), [2, 4, 6]);
    await excludes(redlock);
    deepEqual([...told], ['work:0', 'by-hand']);
    equal((await health.isHealthy()).redlock.status, 'up');
    if (node instanceof FaultyNode) await refuses(node, redlock, health);
    await application.close();
    if (node instanceof Redis) await node.quit();
  }
}

async function excludes(redlock: RedlockService): Promise<void> {
  await using lock = await redlock.acquire('by-hand', 5_000);
  equal(await redlock.tryAcquire('by-hand'), null);
  ok((await refusal(redlock)) instanceof LockTakenError);
  // A call that waits leaves the queue when its caller gives up.
  const caller = new AbortController();
  const waiting = redlock.acquire('by-hand', 5_000, { signal: caller.signal });
  await setImmediate();
  caller.abort('enough');
  equal(await waiting.catch((reason: unknown) => reason), 'enough');
  equal(lock.isValid, true);
}

async function refuses(
  node: FaultyNode,
  redlock: RedlockService,
  health: RedlockHealthIndicator,
): Promise<void> {
  node.refuse();
  ok((await refusal(redlock)) instanceof NoQuorumError);
  equal((await health.isHealthy()).redlock.status, 'down');
}

function refusal(redlock: RedlockService): Promise<unknown> {
  return redlock.acquire('by-hand', 5_000, { wait: 0 }).catch((error: unknown) => error);
}
