// A worker of a torture run: a process with a Nest application, as a user has one, that takes
// locks until it is told to stop. Started by worker-process.ts.
import 'reflect-metadata';

import { join } from 'node:path';

import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedlockModule, RedlockService, type RedlockModuleOptions } from 'nestjs-locked';

import { Random } from '../simulation/random.js';
import { GuardedStore } from './guarded-store.js';
import { HistoryWriter, instantNow } from './history.js';
import { Operations, type WorkerTools } from './worker-operations.js';

/** What a worker is started with. */
export interface WorkerSettings {
  /** Names the worker, and which of its lives this is. */
  readonly name: string;
  /** A resource that no other worker wants. */
  readonly ownResource: string;
  readonly sharedResources: readonly string[];
  readonly nodes: readonly string[];
  readonly store: string;
  /** Where the history goes. */
  readonly folder: string;
  readonly seed: number;
  readonly redlock: RedlockModuleOptions & { readonly ttlMax: number };
}

/** What a worker is told. */
export type WorkerOrder =
  | { readonly kind: 'block'; readonly duration: number }
  | { readonly kind: 'tell next grant' }
  | { readonly kind: 'stop' };

/** What a worker tells. */
export type WorkerNews =
  { readonly kind: 'ready' } | { readonly kind: 'granted'; readonly at: number };

async function work(settings: WorkerSettings): Promise<void> {
  const history = new HistoryWriter(join(settings.folder, `${settings.name}.jsonl`));
  const onError = (error: unknown): void => {
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    history.write({ kind: 'crashed', message: `${settings.name}: ${message}` });
    process.exit(1);
  };
  process.on('uncaughtException', onError).on('unhandledRejection', onError);
  @Module({ imports: [RedlockModule.forRoot(settings.nodes, settings.redlock)] })
  class WorkerModule {}
  const app = await NestFactory.createApplicationContext(WorkerModule, { logger: false });
  const store = new GuardedStore(settings.store);
  const stopping = new AbortController();
  let isGrantAwaited = false;
  const tools: WorkerTools = {
    ...settings,
    ttlMax: settings.redlock.ttlMax,
    redlock: app.get(RedlockService),
    store,
    history,
    onGrant: () => {
      if (isGrantAwaited) tell({ kind: 'granted', at: instantNow() });
      isGrantAwaited = false;
    },
  };
  process.on('message', (order: WorkerOrder) => {
    if (order.kind === 'stop') stopping.abort();
    if (order.kind === 'block') blockLoop(order.duration);
    if (order.kind === 'tell next grant') isGrantAwaited = true;
  });
  tell({ kind: 'ready' });
  await runLanes(tools, settings, stopping.signal);
  await app.close();
  await store.close();
  process.disconnect();
}

async function runLanes(
  tools: WorkerTools,
  { seed, ownResource, sharedResources }: WorkerSettings,
  signal: AbortSignal,
): Promise<void> {
  const lane = (stream: number, resources: readonly string[]): Operations =>
    new Operations(tools, new Random(seed, stream), resources);
  await Promise.all([
    lane(1, [ownResource]).runBriefly(signal),
    lane(2, sharedResources).run(signal),
    lane(3, sharedResources).run(signal),
  ]);
}

// Blocks as a long calculation does, but leaves the processor to the others.
function blockLoop(duration: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, duration);
}

function tell(news: WorkerNews): void {
  process.send?.(news);
}

await work(JSON.parse(process.argv[2] ?? '') as WorkerSettings);
