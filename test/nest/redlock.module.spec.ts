import type { Server } from 'node:http';
import { createServer, type AddressInfo, type Socket } from 'node:net';

import { describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, Inject, Injectable, Module, type DynamicModule } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import {
  currentLock,
  getRedlockToken,
  InjectRedlock,
  Locked,
  LockReentryError,
  LockTakenError,
  MemoryNode,
  RedlockClosedError,
  RedlockModule,
  RedlockService,
  type RedlockFactoryOptions,
} from 'nestjs-locked';

import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { client, server } from '../support/redis-of-spec.js';
import { startServer } from '../support/servers-of-test.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { Log, startPlain, startPlainServer, threeNodes } from './support/applications.js';
import { faultyNodes } from './support/faulty-nodes.js';
import { aborted, Gate, rejection, thrown, turn } from './support/events.js';
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

describe('RedlockModule given bad input', () => {
  it.each([
    [
      'an empty node list',
      () => RedlockModule.forRoot([]),
      /at least one node, got an empty array/,
    ],
    [
      'nodes that are no array',
      () => RedlockModule.forRoot('redis://u:secret@a' as never),
      /nodes to be an array, got a string$/,
    ],
    [
      'options null',
      () => RedlockModule.forRoot(undefined, null as never),
      /options to be an object, got null$/,
    ],
    [
      'options that are a URL',
      () => RedlockModule.forRoot([], 'redis://u:secret@a' as never),
      /options to be an object, got a string$/,
    ],
    [
      'no async options',
      () => RedlockModule.forRootAsync(undefined as never),
      /options to be an object, got undefined$/,
    ],
    ['ttl 99', () => RedlockModule.forRoot(undefined, { ttl: 99 }), /ttl .*got 99/],
    ['wait -1', () => RedlockModule.forRoot(undefined, { wait: -1 }), /wait .*got -1/],
    ['name ""', () => RedlockModule.forRoot(undefined, { name: '' }), /lock domain .*got ""/],
    ['isGlobal 1', () => RedlockModule.forRoot(undefined, { isGlobal: 1 as never }), /isGlobal/],
    [
      'interceptor 1',
      () => RedlockModule.forRoot(undefined, { interceptor: 1 as never }),
      /interceptor .*got 1/,
    ],
    [
      'reentrant "no"',
      () => RedlockModule.forRoot(undefined, { reentrant: 'no' as never }),
      /reentrant .*got "no"/,
    ],
    [
      'a status that is no error',
      () => RedlockModule.forRoot(undefined, { httpStatus: { taken: 399 } }),
      /httpStatus\.taken .*got 399/,
    ],
    [
      'a status beyond all errors',
      () => RedlockModule.forRoot(undefined, { httpStatus: { lost: 600 } }),
      /httpStatus\.lost .*from 400 to 599, got 600/,
    ],
    [
      'a status of what is none',
      () => RedlockModule.forRoot(undefined, { httpStatus: { closed: 503 } as object }),
      /httpStatus as in RedlockHttpStatus, got "closed"/,
    ],
    [
      'one status for all',
      () => RedlockModule.forRoot(undefined, { httpStatus: 409 as never }),
      /httpStatus to be an object, got 409/,
    ],
    ['the token of ""', () => getRedlockToken(''), /lock domain .*got ""/],
    ['the injection of ""', () => InjectRedlock(''), /lock domain .*got ""/],
    ['no way to make options', () => RedlockModule.forRootAsync({}), /one of useFactory.*got 0/],
    [
      'two ways to make options',
      () => RedlockModule.forRootAsync({ useFactory: () => ({}), useClass: OptionsOfSettings }),
      /one of useFactory.*got 2/,
    ],
    [
      'a ttl beside the factory',
      () => RedlockModule.forRootAsync({ useFactory: () => ({}), ttl: 5_000 } as object),
      /RedlockModuleAsyncOptions, got "ttl"/,
    ],
    [
      'a factory that needs what needs the locks',
      () => RedlockModule.forRootAsync({ inject: [LockedSettings], useFactory: () => ({}) }),
      /LockedSettings with the @Locked LockedSettings\.refresh: each would wait .* Make/,
    ],
    [
      'a factory that needs the locks which it makes',
      () => RedlockModule.forRootAsync({ inject: [RedlockService], useFactory: () => ({}) }),
      /need nothing that needs its locks, got RedlockService: each/,
    ],
    [
      'a factory that needs the locks which it makes, by their token',
      () => {
        const inject = [getRedlockToken('billing')];
        return RedlockModule.forRootAsync({ name: 'billing', inject, useFactory: () => ({}) });
      },
      /need nothing that needs its locks, got the RedlockService that it makes: each/,
    ],
    [
      'the same where it is optional',
      () => {
        const inject = [{ token: LockedSettings, optional: true }];
        return RedlockModule.forRootAsync({ inject, useFactory: () => ({}) });
      },
      /LockedSettings with the @Locked LockedSettings\.refresh/,
    ],
    [
      'a class that needs the locks which it makes',
      () => RedlockModule.forRootAsync({ useClass: LockedSettings }),
      /LockedSettings with the @Locked LockedSettings\.refresh/,
    ],
    [
      'such a provider',
      () => RedlockModule.forRootAsync({ useExisting: LockedSettings }),
      /LockedSettings with the @Locked LockedSettings\.refresh/,
    ],
  ])('%s: an error at once', (_name, register, message) => {
    const error = String(thrown(register));

    expect(error).toMatch(message);
    expect(error).not.toContain('secret');
  });

  it.each([
    ['an empty node list', { nodes: [] }, /got an empty array/],
    ['ttl 99', { ttl: 99 }, /ttl .*got 99/],
    ['nothing', undefined, /the result of useFactory to be an object, got undefined/],
    ['a URL alone', 'redis://u:secret@a', /useFactory to be an object, got a string/],
    ['URLs alone', ['redis://u:secret@a'], /useFactory to be an object, got an array/],
    ['nodes that are a URL', { nodes: 'redis://u:secret@a' }, /nodes to be an array, got a string/],
    // The compiler checks what a factory returns for what is missing, not for what is too much.
    ['an option that is none', { nodes: threeNodes(), ttlmax: 60_000 }, /options .*got "ttlmax"/],
    ['a name', { name: 'billing' }, /options .*got "name"/],
    ['a URL of another scheme', { nodes: ['http://a'] }, /nodes\[0\]/],
    ['the same node twice', { nodes: twice(new MemoryNode()) }, /distinct/],
  ])('%s from a factory ends the start', async (_name, options, message) => {
    const useFactory = (): RedlockFactoryOptions => options as RedlockFactoryOptions;
    const imports = [RedlockModule.forRootAsync({ useFactory })];

    const error = String(await rejection(startPlain({ imports })));

    expect(error).toMatch(message);
    expect(error).not.toContain('secret');
  });

  it('beside it, a RedlockService among the providers of a module, ends the start', async () => {
    @Module({ providers: [RedlockService] })
    class OrdersModule {}

    const started = startPlain({ imports: [RedlockModule.forRoot(), OrdersModule] });

    expect(String(await rejection(started))).toMatch(
      /come from RedlockModule, got it among the providers/,
    );
  });

  it('which a double in a test, that extends the RedlockService, is not', async () => {
    class Double extends RedlockService {
      override async tryAcquire(): Promise<null> {
        return null;
      }
    }

    const module = await startPlain({
      providers: [{ provide: RedlockService, useClass: Double }],
    });

    expect(await module.get(RedlockService).tryAcquire('a')).toBeNull();
  });

  it('of one of the nodes ends the start, not the registration', async () => {
    const imports = [RedlockModule.forRoot(['http://a'])];

    expect(String(await rejection(startPlain({ imports })))).toMatch(/nodes\[0\]/);
  });

  it('ends the start where too few nodes will ever let it in, and leaves no connection', async () => {
    const sockets = new Set<Socket>();
    const refuse = (socket: Socket, commands: string): void => {
      const count = [...commands.matchAll(/^\*\d+\r$/gm)].length;
      socket.write('-NOAUTH Authentication required.\r\n'.repeat(count));
    };
    const ports = [
      await startRedis(sockets, refuse),
      await startRedis(sockets, refuse),
      // Neither lets in nor refuses: the start waits for it, but not for ever.
      await startRedis(sockets, () => {}),
    ];
    const nodes = ports.map((port) => `redis://127.0.0.1:${port}`);

    const error = await rejection(startPlain({ imports: [RedlockModule.forRoot(nodes)] }));

    expect(String(error)).toMatch(/no quorum of 2 of 3 nodes.*NOAUTH/s);
    while (sockets.size > 0) await turn();
  });

  it('starts over nodes that are merely down', async () => {
    const nodes = faultyNodes();
    for (const node of nodes) node.refuse();
    const imports = [RedlockModule.forRoot(nodes, { wait: 0 })];

    const redlock = (await startPlain({ imports })).get(RedlockService);

    expect(await rejection(redlock.acquire('a'))).toMatchObject({ code: 'NO_QUORUM' });
  });
});

describe('app.close()', () => {
  it('awaits running bodies, refuses new acquisitions and leaves nothing locked', async () => {
    const nodes = threeNodes();
    const module = await startPlain({ imports: [RedlockModule.forRoot(nodes)] });
    const other = (await startPlain({ imports: [RedlockModule.forRoot(nodes)] })).get(
      RedlockService,
    );
    const redlock = module.get(RedlockService);
    const entered = new Gate();
    const leave = new Gate();
    const body = redlock.using('a', async ({ signal }) => {
      entered.open();
      await leave.passed;
      return signal.aborted;
    });
    await entered.passed;

    const closing = module.close();
    let isClosed = false;
    void closing.then(() => (isClosed = true));
    await closedToNewcomers(redlock);
    const refused = await rejection(redlock.acquire('b'));
    const stillHeld = await rejection(other.acquire('a', 1_000, { wait: 0 }));

    expect(refused).toBeInstanceOf(RedlockClosedError);
    expect(stillHeld).toBeInstanceOf(LockTakenError);
    expect(isClosed).toBe(false);
    leave.open();
    expect(await body).toBe(false);
    await closing;
    await (await other.acquire('a', 1_000, { wait: 0 })).release();
  });

  it('tells bodies that go on after shutdownTimeout to stop', async () => {
    const module = await startPlain({
      imports: [RedlockModule.forRoot(threeNodes(), { shutdownTimeout: 20 })],
    });
    const redlock = module.get(RedlockService);
    const entered = new Gate();
    const body = rejection(
      redlock.using('a', async ({ signal }) => {
        entered.open();
        await aborted(signal);
      }),
    );
    await entered.passed;

    await module.close();

    expect(await body).toMatchObject({ code: 'LOCK_LOST', reason: 'closed' });
  });

  it('closes the connections that were made for it', async () => {
    // Of a server that answers: one that does not is given up, and the connection with it.
    const connections = async (): Promise<number> => {
      const clients = await client.client('LIST');
      return String(clients).trim().split('\n').length;
    };
    const before = await connections();
    const module = await startPlain({ imports: [RedlockModule.forRoot([server.url])] });
    expect(await connections()).toBeGreaterThan(before);

    await module.close();

    await eventually(async () => (await connections()) === before);
  });

  it('closes every domain, and locks still work in the hooks before', async () => {
    const seen: unknown[] = [];
    @Injectable()
    class Service {
      readonly redlock: RedlockService;
      constructor(redlock: RedlockService) {
        this.redlock = redlock;
      }

      async onModuleInit(): Promise<void> {
        seen.push(await this.redlock.using('a', () => 'init'));
      }

      async beforeApplicationShutdown(): Promise<void> {
        // Nest 11 calls the hooks again for the second close, which follows each test.
        if (seen.length < 2) seen.push(await this.redlock.using('a', () => 'before shutdown'));
      }
    }
    const module = await startPlain({
      imports: [RedlockModule.forRoot(), RedlockModule.forRoot(undefined, { name: 'billing' })],
      providers: [Service],
    });
    const billing = module.get<RedlockService>(getRedlockToken('billing'));
    const redlock = module.get(RedlockService);

    await module.close();

    expect(seen).toEqual(['init', 'before shutdown']);
    expect([await redlock.status(), await billing.status()]).toMatchObject([
      { isClosed: true },
      { isClosed: true },
    ]);
  });
});

describe('app.close() while queue workers stop', () => {
  /** What stops as BullMQ's workers do: it lets jobs begin until its hook has run. */
  @Injectable()
  class Worker {
    readonly last: unknown[] = [];

    @Locked('job')
    async work(): Promise<string> {
      return 'done';
    }

    @Locked('bill', { redlock: 'billing' })
    async bill(): Promise<string> {
      return 'billed';
    }

    async onApplicationShutdown(): Promise<void> {
      // Nest 11 calls the hooks again for the second close, which follows each test.
      if (this.last.length > 0) return;
      for (const job of [() => this.work(), () => this.bill()]) {
        this.last.push(await job().catch(String));
      }
    }
  }

  const domains = (isGlobal: boolean): DynamicModule[] => [
    RedlockModule.forRoot(undefined, { isGlobal }),
    RedlockModule.forRootAsync({ name: 'billing', isGlobal, useFactory: () => ({}) }),
  ];
  const workers = (imports: DynamicModule[], global = false): DynamicModule => ({
    module: class Jobs {},
    imports,
    global,
    providers: [Worker],
    exports: [Worker],
  });

  it.each([
    ['are global, and imported before RedlockModule', [workers([], true), ...domains(true)]],
    ['are global, and imported after RedlockModule', [...domains(true), workers([], true)]],
    ['import RedlockModule themselves', [workers(domains(false))]],
    ['are global and import RedlockModule themselves', [workers(domains(false), true)]],
  ])('locks work until they have, in every domain, where they %s', async (_where, imports) => {
    const module = await startPlain({ imports });
    const worker = module.get(Worker, { strict: false });

    await module.close();

    expect(worker.last).toEqual(['done', 'billed']);
    expect(String(await rejection(worker.work()))).toMatch(/RedlockClosedError/);
  });
});

describe('app.close() while an endpoint that holds a lock keeps the server from closing', () => {
  @Controller()
  class Endless {
    @Get()
    @Locked('a')
    async run(): Promise<unknown> {
      const lock = currentLock();
      if (lock !== undefined) await aborted(lock.signal);
      return 'ended';
    }
  }

  it('grants locks for shutdownTimeout, then begins the shutdown all the same', async () => {
    const imports = [RedlockModule.forRoot(threeNodes(), { shutdownTimeout: 100 })];
    const metadata = { imports, controllers: [Endless] };
    const { application, url } = await startPlainServer(metadata, { forceCloseConnections: false });
    const server = application.getHttpServer() as Server;
    afterTest(async () => server.closeAllConnections());
    const redlock = application.get(RedlockService);
    const answer = fetch(url);
    while ((await redlock.status()).held === 0) await turn();

    const closed = application.close();
    const free = await redlock.using('b', () => 'granted');
    await closedToNewcomers(redlock);
    const lost: unknown = await (await answer).json();
    // What the client keeps open for its next request.
    server.closeAllConnections();
    await closed;

    expect(free).toBe('granted');
    expect(lost).toMatchObject({ error: 'LOCK_LOST' });
  });
});

describe('enableShutdownHooks()', () => {
  it('makes a signal await running bodies and release what they held', async () => {
    const nodes = threeNodes();
    const module = await startPlain({ imports: [RedlockModule.forRoot(nodes)] });
    const redlock = module.get(RedlockService);
    const other = (await startPlain({ imports: [RedlockModule.forRoot(nodes)] })).get(
      RedlockService,
    );
    // What Nest ends the process by when its hooks are done.
    const ended = new Gate();
    const kill = jest.spyOn(process, 'kill').mockImplementation(() => {
      ended.open();
      return true;
    });
    afterTest(() => kill.mockRestore());
    const leave = new Gate();
    const body = redlock.using('a', async ({ signal }) => {
      await leave.passed;
      return signal.aborted;
    });
    module.enableShutdownHooks(['SIGUSR2']);

    process.emit('SIGUSR2', 'SIGUSR2');
    await closedToNewcomers(redlock);
    leave.open();

    expect(await body).toBe(false);
    await ended.passed;
    expect((await other.inspect('a')).state).toBe('free');
  });
});

/** Resolves when the shutdown has reached the locks; it runs through other hooks first. */
async function closedToNewcomers(redlock: RedlockService): Promise<void> {
  while (!(await redlock.status()).isClosed) await turn();
}

function twice<T>(value: T): readonly T[] {
  return [value, value];
}

/** A server that greets every connection with what a test says; resolves with its port. */
async function startRedis(
  sockets: Set<Socket>,
  answer: (socket: Socket, commands: string) => void,
): Promise<number> {
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    socket.on('data', (commands) => answer(socket, String(commands)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  afterTest(async () => server.close());
  return (server.address() as AddressInfo).port;
}
