// What the decorator adds, over a node in this process's memory, so that no network blurs it.
import 'reflect-metadata';

import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Locked, RedlockModule, RedlockService } from 'nestjs-locked';

export interface OverheadTask {
  readonly calls: number;
}

/** The cost of one call, by each way of calling. */
export interface OverheadResult {
  readonly plain: Cost;
  readonly using: Cost;
  readonly locked: Cost;
}

export interface Cost {
  /** In µs. */
  readonly time: number;
  /** Bytes allocated on the heap; NaN if the collector ran in between. */
  readonly heap: number;
}

/** The compared ways take turns in this many slices, so that a disturbance hits all of them. */
const SLICES = 20;

export async function measureOverhead({ calls }: OverheadTask): Promise<OverheadResult> {
  @Injectable()
  class Work {
    #sum = 0;

    add(value: number): Promise<number> {
      this.#sum += value;
      return Promise.resolve(this.#sum);
    }

    @Locked('work')
    addLocked(value: number): Promise<number> {
      return this.add(value);
    }
  }

  @Module({
    imports: [RedlockModule.forRoot(undefined, { interceptor: false })],
    providers: [Work],
  })
  class OverheadModule {}

  const application = await NestFactory.createApplicationContext(OverheadModule, {
    logger: false,
    abortOnError: false,
  });
  const work = application.get(Work);
  const redlock = application.get(RedlockService);
  const ways = {
    plain: () => work.add(1),
    using: () => redlock.using('work', () => work.add(1)),
    locked: () => work.addLocked(1),
  };
  try {
    const slice = Math.ceil(calls / SLICES);
    for (const way of Object.values(ways)) await timeOf(way, slice);
    const times = { plain: 0, using: 0, locked: 0 };
    for (let round = 0; round < SLICES; round += 1) {
      times.plain += (await timeOf(ways.plain, slice)) / SLICES;
      times.using += (await timeOf(ways.using, slice)) / SLICES;
      times.locked += (await timeOf(ways.locked, slice)) / SLICES;
    }
    return {
      plain: { time: times.plain, heap: await heapOf(ways.plain) },
      using: { time: times.using, heap: await heapOf(ways.using) },
      locked: { time: times.locked, heap: await heapOf(ways.locked) },
    };
  } finally {
    await application.close();
  }
}

async function timeOf(way: () => Promise<unknown>, calls: number): Promise<number> {
  const startedAt = performance.now();
  for (let call = 0; call < calls; call += 1) await way();
  return ((performance.now() - startedAt) * 1_000) / calls;
}

async function heapOf(way: () => Promise<unknown>): Promise<number> {
  const calls = 200;
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  for (let call = 0; call < calls; call += 1) await way();
  const allocated = process.memoryUsage().heapUsed - before;
  return allocated > 0 ? allocated / calls : NaN;
}
