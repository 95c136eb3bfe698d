// What check-matrix.mjs compiles, type-checks and runs in every combination: the library as an
// application of a user has it.
import 'reflect-metadata';

import { deepEqual, equal } from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';

import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { currentLock, Locked, LockTakenError, RedlockModule, RedlockService } from 'nestjs-locked';

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

/** Locks by decorator and by hand, over a URL and over a client of the application. */
export async function run(): Promise<void> {
  const url = process.env.REDIS_URL ?? '';
  for (const node of [url, new Redis(url)]) {
    // Several runs share the server.
    const locks = RedlockModule.forRoot([node], { keyPrefix: `${process.pid}:` });
    @Module({ imports: [locks], providers: [Work] })
    class AppModule {}

    const logger = ['error', 'warn'] as const;
    const options = { logger: [...logger], abortOnError: false };
    const application = await NestFactory.createApplicationContext(AppModule, options);
    const work = application.get(Work);
    deepEqual(await Promise.all([1, 2, 3].map((value) => work.double(value))), [2, 4, 6]);
    await excludes(application.get(RedlockService));
    await application.close();
    if (typeof node !== 'string') await node.quit();
  }
}

async function excludes(redlock: RedlockService): Promise<void> {
  await using lock = await redlock.acquire('by-hand', 5_000);
  equal(await redlock.tryAcquire('by-hand'), null);
  const refusal: unknown = await redlock
    .acquire('by-hand', 5_000, { wait: 0 })
    .catch((error: unknown) => error);
  equal(refusal instanceof LockTakenError, true);
  equal(lock.isValid, true);
}
