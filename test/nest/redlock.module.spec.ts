import { AsyncLocalStorage } from 'node:async_hooks';

import { describe, expect, it } from '@jest/globals';
import { Inject, Injectable, Module, type DynamicModule } from '@nestjs/common';
import { ConfigModule, ConfigService } from '@nestjs/config';
import type { TestingModule } from '@nestjs/testing';
import {
  currentLock,
  getRedlockToken,
  InjectRedlock,
  Locked,
  LockReentryError,
  MemoryNode,
  RedlockClosedError,
  RedlockModule,
  RedlockService,
} from 'nestjs-locked';

import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { startPretender, startServer } from '../support/servers-of-test.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { Log, startPlain, threeNodes } from './support/applications.js';
import { rejection, turn } from './support/events.js';
import { LockedSettings, OptionsOfSettings, Settings } from './support/settings.js';

async function quorumOf(imports: NonNullable<Parameters<typeof startPlain>[0]['imports']>) {
  const redlock = (await startPlain({ imports })).get(RedlockService);
  return (await redlock.status()).quorum;
}

/** What Nest before 11.2 does for a lazy module that imports `locks` too: each factory anew. */
async function made(locks: DynamicModule, module: TestingModule): Promise<RedlockService> {
  const instances = new Map<unknown, unknown>();
  for (const provider of locks.providers ?? []) {
    if ('useValue' in provider) instances.set(provider.provide, provider.useValue);
    if (!('useFactory' in provider)) continue;
    const injected = (provider.inject ?? []).map(
      (token) => instances.get(token) ?? module.get<unknown>(token as symbol, { strict: false }),
    );
    instances.set(provider.provide, await provider.useFactory(...injected));
  }
  return instances.get(RedlockService) as RedlockService;
}

@Module({
  providers: [Settings, OptionsOfSettings],
  exports: [Settings, OptionsOfSettings],
})
class SettingsModule {}

describe('RedlockModule registered', () => {
  it('by forRoot locks over the nodes given', async () => {
    expect(await quorumOf([RedlockModule.forRoot(threeNodes())])).toBe(2);
  });

  it('by useFactory, with what it injects', async () => {
    const module = RedlockModule.forRootAsync({
      imports: [SettingsModule],
      inject: [Settings],
      useFactory: async ({ nodes }: Settings) => ({ nodes }),
    });

    expect(await quorumOf([module])).toBe(2);
  });

  it('over the nodes that the configuration names', async () => {
    const servers = await Promise.all([startServer(), startServer(), startServer()]);
    const configured = () => ({ NODES: servers.map(({ url }) => url).join(',') });
    const module = RedlockModule.forRootAsync({
      imports: [ConfigModule.forRoot({ load: [configured], ignoreEnvFile: true })],
      inject: [ConfigService],
      useFactory: (config: ConfigService) => ({
        nodes: config.getOrThrow<string>('NODES').split(','),
        quarantine: false,
      }),
    });

    const redlock = (await startPlain({ imports: [module] })).get(RedlockService);
    const keys = redlock.using('a', () =>
      Promise.all(servers.map(({ client }) => client.get('a'))),
    );

    // The third may be later than the quorum.
    expect((await keys).filter((key) => key !== null).length).toBeGreaterThanOrEqual(2);
  });

  it('by useClass, made with its dependencies', async () => {
    const imports = [SettingsModule];

    expect(
      await quorumOf([RedlockModule.forRootAsync({ imports, useClass: OptionsOfSettings })]),
    ).toBe(2);
  });

  it('by useExisting', async () => {
    const imports = [SettingsModule];

    expect(
      await quorumOf([RedlockModule.forRootAsync({ imports, useExisting: OptionsOfSettings })]),
    ).toBe(2);
  });

  it.each([
    ['log', 'test'],
    ['warn', 'production'],
  ])('without nodes locks in this process only: a %s where NODE_ENV is %s', async (level, mode) => {
    const log = new Log();
    const { NODE_ENV } = process.env;
    process.env.NODE_ENV = mode;
    afterTest(() => (process.env.NODE_ENV = NODE_ENV));

    const module = await startPlain({ imports: [RedlockModule.forRoot()] }, log);
    const redlock = module.get(RedlockService);

    expect(await redlock.using('a', () => currentLock()?.isValid)).toBe(true);
    expect(log.lines).toContainEqual([
      level,
      'RedlockModule locks in this process only, as it was given no nodes',
      'Redlock',
    ]);
  });

  it.each([
    [2, ['2 nodes, which tolerate the failure of 0, as 1 would']],
    [3, []],
    [4, ['4 nodes, which tolerate the failure of 1, as 3 would']],
  ])('over %i nodes warns of an even number only', async (count, warnings) => {
    const log = new Log();
    const nodes = Array.from({ length: count }, (_, index) => new MemoryNode({ name: `${index}` }));

    await startPlain({ imports: [RedlockModule.forRoot(nodes)] }, log);

    expect(log.lines.filter(([level]) => level === 'warn')).toEqual(
      warnings.map((text) => ['warn', expect.stringContaining(text), 'Redlock']),
    );
    expect(log.lines.join()).not.toContain('in this process only');
  });

  it('with an environment takes time from there, and its node in memory too', async () => {
    const environment = new SimulatedEnvironment();
    const imports = [RedlockModule.forRoot(undefined, { environment })];
    const redlock = (await startPlain({ imports })).get(RedlockService);
    const lock = await redlock.acquire('a', 30_000);
    const held = { isValid: lock.isValid, ...(await redlock.inspect('a')) };

    environment.block(30_000);
    const over = { isValid: lock.isValid, ...(await redlock.inspect('a')) };

    expect(held).toMatchObject({ isValid: true, state: 'held' });
    expect(over).toMatchObject({ isValid: false, state: 'free' });
  });

  it('over a server that says nothing starts without it after 2 s', async () => {
    const environment = new SimulatedEnvironment();
    const { address } = await startPretender(() => null);
    let isStarted = false;
    const started = startPlain({ imports: [RedlockModule.forRoot([address], { environment })] });
    void started.then(() => (isStarted = true));
    while (environment.pendingTimers === 0) await turn();

    await environment.advance(1_999);
    const before = isStarted;
    await environment.advance(1);
    await started;

    expect(before).toBe(false);
  });

  it.each([
    [1, 'votes at once'],
    [3, 'are in quarantine from the start'],
  ])('over fresh servers, these are known to vote or not: %i %s', async (count) => {
    const servers = await Promise.all(Array.from({ length: count }, () => startServer()));
    const imports = [RedlockModule.forRoot(servers.map(({ url }) => url))];

    const { nodes } = await (await startPlain({ imports })).get(RedlockService).status();

    expect(nodes.map(({ quarantineRemaining }) => quarantineRemaining > 0)).toEqual(
      servers.map(() => count >= 3),
    );
  });

  it('looks after locks outside of the async context of its start, as of a span that has ended', async () => {
    const spans = new AsyncLocalStorage<string>();
    const extendedIn: unknown[] = [];
    class TracedNode extends MemoryNode {
      override extend(...request: Parameters<MemoryNode['extend']>): void {
        extendedIn.push(spans.getStore());
        super.extend(...request);
      }
    }
    const imports = [RedlockModule.forRoot([new TracedNode()])];

    const module = await spans.run('start', () => startPlain({ imports }));
    await module.get(RedlockService).using('a', 100, () => eventually(() => extendedIn.length > 1));

    expect(new Set(extendedIn)).toEqual(new Set([undefined]));
  });

  it('is seen by all modules, or only where it is imported', async () => {
    @Injectable()
    class Service {
      @Locked('a')
      async run(): Promise<void> {}
    }
    @Module({ providers: [Service] })
    class Feature {}

    const global = await startPlain({ imports: [RedlockModule.forRoot(), Feature] });
    const local = await rejection(
      startPlain({ imports: [RedlockModule.forRoot(undefined, { isGlobal: false }), Feature] }),
    );

    await global.get(Service).run();
    expect(String(local)).toMatch(
      /import RedlockModule\.forRoot\(…\).* with isGlobal: false into this/,
    );
  });

  it('under several names gives several domains, each with its nodes', async () => {
    @Injectable()
    class Service {
      readonly stock: RedlockService;
      readonly billing: RedlockService;
      constructor(
        @Inject(RedlockService) stock: RedlockService,
        @InjectRedlock('billing') billing: RedlockService,
      ) {
        this.stock = stock;
        this.billing = billing;
      }
    }
    const module = await startPlain({
      imports: [
        // First, so that it would be the one that the class alone means, if it had the class.
        RedlockModule.forRoot([new MemoryNode()], { name: 'billing' }),
        RedlockModule.forRoot(threeNodes()),
        RedlockModule.forRootAsync({ name: 'mail', useFactory: () => ({}) }),
      ],
      providers: [Service],
    });
    const { stock, billing } = module.get(Service);
    const mail = module.get<RedlockService>(getRedlockToken('mail'));

    expect((await stock.status()).quorum).toBe(2);
    expect((await billing.status()).quorum).toBe(1);
    expect(module.get(getRedlockToken())).toBe(stock);
    await stock.using('a', () => billing.using('a', () => mail.using('a', () => undefined)));
  });

  it('twice under one name ends the start', async () => {
    const error = await rejection(
      startPlain({ imports: [RedlockModule.forRoot(), RedlockModule.forRoot(threeNodes())] }),
    );

    expect(String(error)).toMatch(/Expected RedlockModule to be registered once .*got 2 times/);
  });

  it('and made twice by Nest, for a lazy module, is one, and is shut down as one', async () => {
    const locks = RedlockModule.forRoot();
    const module = await startPlain({ imports: [locks] });
    const redlock = module.get(RedlockService);

    const again = await made(locks, module);

    const lock = await redlock.acquire('a');
    expect(again).not.toBe(redlock);
    expect(await again.tryAcquire('a')).toBeNull();
    await lock.release();
    const nested = redlock.using('a', () => again.using('a', () => undefined));
    expect(await rejection(nested)).toBeInstanceOf(LockReentryError);
    await module.close();
    expect(await rejection(again.acquire('a'))).toBeInstanceOf(RedlockClosedError);
  });
});

it('RedlockModule may be made of what another lock domain locks', async () => {
  const settings = {
    module: SettingsModule,
    providers: [LockedSettings],
    exports: [LockedSettings],
  };
  const billing = RedlockModule.forRootAsync({
    name: 'billing',
    imports: [settings],
    inject: [LockedSettings, RedlockService],
    useFactory: (given: LockedSettings) => given.createRedlockOptions(),
  });

  const module = await startPlain({ imports: [RedlockModule.forRoot(), billing] });

  const redlock = module.get<RedlockService>(getRedlockToken('billing'));
  expect((await redlock.status()).quorum).toBe(2);
});
