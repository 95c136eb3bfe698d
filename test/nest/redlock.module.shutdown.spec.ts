import type { Server } from 'node:http';

import { describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, Injectable, type DynamicModule } from '@nestjs/common';
import {
  currentLock,
  getRedlockToken,
  Locked,
  LockTakenError,
  RedlockClosedError,
  RedlockModule,
  RedlockService,
} from 'nestjs-locked';

import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { client, server } from '../support/redis-of-spec.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { startPlain, startPlainServer, threeNodes } from './support/applications.js';
import { aborted, Gate, rejection, turn } from './support/events.js';

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

  // Of a server that answers: one that does not is given up, and the connection with it.
  const connections = async (): Promise<number> =>
    String(await client.client('LIST'))
      .trim()
      .split('\n').length;

  it('closes the connections that were made for it', async () => {
    const before = await connections();
    const module = await startPlain({ imports: [RedlockModule.forRoot([server.url])] });
    expect(await connections()).toBeGreaterThan(before);

    await module.close();

    await eventually(async () => (await connections()) === before);
  });

  it('closes them when the locks are released that bodies held until then', async () => {
    const module = await startPlain({ imports: [RedlockModule.forRoot([server.url])] });
    const redlock = module.get(RedlockService);
    const leave = new Gate();
    const body = redlock.using('a', () => leave.passed);
    while ((await redlock.status()).held === 0) await turn();

    const closed = module.close();
    await closedToNewcomers(redlock);
    leave.open();
    await Promise.all([body, closed]);

    expect(await client.exists('a')).toBe(0);
  });

  it('is not needed after a start that failed: its connections are closed', async () => {
    const before = await connections();
    const twin = server.url.replace('127.0.0.1', 'localhost');

    const start = startPlain({ imports: [RedlockModule.forRoot([server.url, twin])] });
    const error = await rejection(start);

    expect(String(error)).toContain('same server');
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
    const environment = new SimulatedEnvironment();
    const imports = [RedlockModule.forRoot(threeNodes(), { environment, shutdownTimeout: 100 })];
    const metadata = { imports, controllers: [Endless] };
    const { application, url } = await startPlainServer(metadata, { forceCloseConnections: false });
    const server = application.getHttpServer() as Server;
    afterTest(async () => server.closeAllConnections());
    const redlock = application.get(RedlockService);
    const answer = fetch(url);
    while ((await redlock.status()).held === 0) await turn();

    const { pendingTimers } = environment;
    const closed = application.close();
    while (environment.pendingTimers === pendingTimers) await turn();
    await environment.advance(99);
    const free = await redlock.using('b', () => 'granted');
    await environment.advance(101);
    const lost: unknown = await (await answer).json();
    // What the client keeps open for its next request.
    server.closeAllConnections();
    await closed;

    expect([free, lost]).toMatchObject(['granted', { error: 'LOCK_LOST' }]);
  });
});

describe('app.close() before the locks close', () => {
  it('keeps no process alive for that', async () => {
    const environment = new SimulatedEnvironment();
    const timers: number[] = [];
    @Injectable()
    class Service {
      onApplicationShutdown(): void {
        timers.push(environment.pendingTimers, environment.processHoldingTimers);
      }
    }
    const module = await startPlain({
      imports: [RedlockModule.forRoot(threeNodes(), { environment })],
      providers: [Service],
    });

    await module.close();

    // Nest 11 calls the hook again for the second close, which follows each test.
    expect(timers.slice(0, 2)).toEqual([1, 0]);
    expect(environment.pendingTimers).toBe(0);
  });
});

describe('enableShutdownHooks()', () => {
  it('makes a signal await running bodies and release what they held', async () => {
    const nodes = threeNodes();
    const start = () => startPlain({ imports: [RedlockModule.forRoot(nodes)] });
    const [module, other] = [await start(), await start()];
    const redlock = module.get(RedlockService);
    // What Nest ends the process by when its hooks are done.
    const ended = new Gate();
    const kill = jest.spyOn(process, 'kill').mockImplementation(() => {
      ended.open();
      return true;
    });
    afterTest(() => kill.mockRestore());
    const [entered, leave] = [new Gate(), new Gate()];
    const body = redlock.using('a', async ({ signal }) => {
      entered.open();
      await leave.passed;
      return signal.aborted;
    });
    await entered.passed;
    module.enableShutdownHooks(['SIGUSR2']);

    process.emit('SIGUSR2', 'SIGUSR2');
    await closedToNewcomers(redlock);
    leave.open();

    expect(await body).toBe(false);
    await ended.passed;
    expect((await other.get(RedlockService).inspect('a')).state).toBe('free');
  });
});

/** Resolves when the shutdown has reached the locks; it runs through other hooks first. */
async function closedToNewcomers(redlock: RedlockService): Promise<void> {
  while (!(await redlock.status()).isClosed) await turn();
}
