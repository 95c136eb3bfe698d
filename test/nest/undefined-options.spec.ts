// The README says that what is undefined counts as left out. `npm run typecheck` checks, under
// `exactOptionalPropertyTypes`, that the types say so too: settings may be missing.
import { describe, expect, it } from '@jest/globals';
import { ConsoleLogger } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  Locked,
  MemoryNode,
  RedlockModule,
  RedlockService,
  type LockedOptions,
  type MemoryNodeOptions,
  type RedlockFactoryOptions,
  type RedlockHttpStatus,
  type RedlockModuleAsyncOptions,
  type RedlockModuleOptions,
  type UsingOptions,
} from 'nestjs-locked';
import { RedlockTelemetryModule, type RedlockTelemetryOptions } from 'nestjs-locked/opentelemetry';
import { FaultyNode, type FaultyNodeOptions } from 'nestjs-locked/testing';

type Missing<Options> = Readonly<Record<keyof Options, undefined>>;

const statuses: Missing<RedlockHttpStatus> = {
  taken: undefined,
  unavailable: undefined,
  lost: undefined,
};

const common = {
  wait: undefined,
  retryDelay: undefined,
  watchdog: undefined,
  maxHold: undefined,
  reentrant: undefined,
  ttl: undefined,
};

const usingOptions: Missing<UsingOptions & { reentrant: boolean }> = {
  ...common,
  signal: undefined,
  holdAtLeast: undefined,
};

const lockedOptions: Missing<LockedOptions & UsingOptions> = {
  ...common,
  signal: undefined,
  holdAtLeast: undefined,
  onTaken: undefined,
  redlock: undefined,
};

const moduleOptions: Missing<RedlockModuleOptions> = {
  ...common,
  ttlMax: undefined,
  driftFactor: undefined,
  nodeTimeout: undefined,
  stallTimeout: undefined,
  fencing: undefined,
  quarantine: undefined,
  keyPrefix: undefined,
  shutdownTimeout: undefined,
  interceptor: undefined,
  httpStatus: undefined,
  environment: undefined,
  name: undefined,
  isGlobal: undefined,
};

describe('options that are undefined', () => {
  it.each([
    ['of forRoot', () => RedlockModule.forRoot(undefined, moduleOptions)],
    ['of what is in them', () => RedlockModule.forRoot(undefined, nested)],
    ['of forRootAsync', () => RedlockModule.forRootAsync(asyncOptions)],
  ])('%s count as left out, as do those of @Locked and using', async (_of, imported) => {
    const module = await start(imported());
    const redlock = module.get(RedlockService);

    const count = await module.get(Jobs).run();
    const remaining = await redlock.using('a', usingOptions, (lock) => {
      lock.assertHeld({ atLeast: undefined });
      return lock.remaining;
    });
    await module.close();

    expect(count).toBe(1);
    expect(remaining).toBeGreaterThan(5_000);
  });

  it('of nodes and telemetry count as left out', () => {
    const nodeOptions: Missing<MemoryNodeOptions> = { name: undefined, environment: undefined };
    const faultyOptions: Missing<FaultyNodeOptions> = { ...nodeOptions, node: undefined };
    const telemetryOptions: Missing<RedlockTelemetryOptions> = {
      meterProvider: undefined,
      tracerProvider: undefined,
      resourceClass: undefined,
      resourceNames: undefined,
    };
    const node = new FaultyNode(faultyOptions);

    node.delay({ request: undefined, answer: undefined });

    expect([node.name, new MemoryNode(nodeOptions).name]).toEqual(['memory', 'memory']);
    expect(() => RedlockTelemetryModule.forRoot(telemetryOptions)).not.toThrow();
    expect(() =>
      RedlockModule.forRoot([{ url: 'redis://127.0.0.1', persistent: undefined }]),
    ).not.toThrow();
  });
});

const nested: RedlockModuleOptions = {
  httpStatus: statuses,
  retryDelay: { min: undefined, max: undefined },
};

const factoryOptions: RedlockFactoryOptions = { nodes: undefined, ttl: undefined };
const asyncOptions: RedlockModuleAsyncOptions = {
  name: undefined,
  isGlobal: undefined,
  imports: undefined,
  inject: undefined,
  useFactory: () => factoryOptions,
  useClass: undefined,
  useExisting: undefined,
};

class Jobs {
  @Locked('job', lockedOptions)
  async run(): Promise<number> {
    return 1;
  }
}

function start(redlock: ReturnType<typeof RedlockModule.forRoot>): Promise<TestingModule> {
  return Test.createTestingModule({ imports: [redlock], providers: [Jobs] })
    .setLogger(new ConsoleLogger({ logLevels: [] }))
    .compile();
}
