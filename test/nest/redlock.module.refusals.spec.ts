import { createServer, type AddressInfo, type Socket } from 'node:net';

import { describe, expect, it } from '@jest/globals';
import { Module, type DynamicModule } from '@nestjs/common';
import {
  getRedlockToken,
  InjectRedlock,
  MemoryNode,
  RedlockModule,
  RedlockService,
  type RedlockFactoryOptions,
} from 'nestjs-locked';

import { afterTest } from '../support/after-test.js';
import { startPlain } from './support/applications.js';
import { faultyNodes } from './support/faulty-nodes.js';
import { rejection, thrown, turn } from './support/events.js';
import { LockedSettings, OptionsOfSettings, Settings } from './support/settings.js';

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
      'nodes among the options too',
      () => RedlockModule.forRoot(['redis://a'], { nodes: ['redis://b'] } as object),
      /^TypeError: Expected nodes once, got them among the options too$/,
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
    [
      'a signal in place of the options',
      () => RedlockModule.forRoot(undefined, AbortSignal.abort() as object),
      /RedlockModuleOptions \(ttl, .*, nodes, .*, isGlobal\), got "/,
    ],
    ['ttl 99', () => RedlockModule.forRoot(undefined, { ttl: 99 }), /ttl .*got 99/],
    ['wait -1', () => RedlockModule.forRoot(undefined, { wait: -1 }), /wait .*got -1/],
    ['name ""', () => RedlockModule.forRoot(undefined, { name: '' }), /lock domain .*got ""/],
    ['no clock', () => RedlockModule.forRoot(undefined, { environment: {} as never }), /environ/],
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
      'a status that is a text',
      () => RedlockModule.forRoot(undefined, { httpStatus: { taken: '423' as never } }),
      /httpStatus\.taken .*got "423"/,
    ],
    [
      'a status of what is none',
      () => RedlockModule.forRoot(undefined, { httpStatus: { closed: 503 } as object }),
      /httpStatus as in RedlockHttpStatus \(taken, unavailable, lost\), got "closed"/,
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
      'a factory that is none',
      () => RedlockModule.forRootAsync({ useFactory: {} as never }),
      /useFactory to be a function, got an object/,
    ],
    [
      'one token alone',
      () => {
        const inject = OptionsOfSettings as never;
        return RedlockModule.forRootAsync({ inject, useFactory: () => ({}) });
      },
      /inject to be an array of tokens, got a function/,
    ],
    [
      'a ttl beside the factory',
      () => RedlockModule.forRootAsync({ useFactory: () => ({}), ttl: 5_000 } as object),
      /RedlockModuleAsyncOptions \(.*, useExisting\), got "ttl"/,
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
    ['an option that is none', { ttlmax: 1 }, /Factory.* \(ttl, .*, environment\), got "ttlmax"/],
    ['a name', { name: 'billing' }, /name beside the factory, got it in the result of useFactory/],
    ['isGlobal', { isGlobal: false }, /isGlobal beside the factory/],
    ['a URL of another scheme', { nodes: ['http://a'] }, /nodes\[0\]/],
    ['the same node twice', { nodes: twice(new MemoryNode()) }, /distinct/],
  ])('%s from a factory ends the start', async (_name, options, message) => {
    const useFactory = (): RedlockFactoryOptions => options as RedlockFactoryOptions;
    const imports = [RedlockModule.forRootAsync({ useFactory })];

    const error = String(await rejection(startPlain({ imports })));

    expect(error).toMatch(message);
    expect(error).not.toContain('secret');
  });

  it.each([
    [
      'useExisting',
      'an object',
      { imports: [valueModule({ nodes: [] })], useExisting: 'options' as never },
    ],
    [
      'useExisting',
      'a string',
      { imports: [valueModule('redis://u:secret@a')], useExisting: 'options' as never },
    ],
    ['useClass', 'an object', { useClass: Settings as never }],
  ])('by a %s that gives %s, not a factory, ends the start', async (way, what, options) => {
    const imports = [RedlockModule.forRootAsync(options)];

    const error = String(await rejection(startPlain({ imports })));

    expect(error).toContain(
      `Expected ${way} to give a RedlockOptionsFactory, with the method createRedlockOptions, ` +
        `got ${what}`,
    );
    expect(error).not.toContain('secret');
  });

  it('beside it, a RedlockService among the providers of a module, ends the start', async () => {
    @Module({ providers: [RedlockService] })
    class OrdersModule {}

    const started = startPlain({ imports: [RedlockModule.forRoot(), OrdersModule] });

    expect(String(await rejection(started))).toMatch(
      /come from RedlockModule, got it or a subclass among the providers/,
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

function valueModule(useValue: unknown): DynamicModule {
  const module = class {};
  return { module, providers: [{ provide: 'options', useValue }], exports: ['options'] };
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
