import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';

import { describe, expect, it } from '@jest/globals';
import {
  getRedlockToken,
  MemoryNode,
  RedlockModule,
  RedlockService,
  type AcquireMessage,
  type ExtendMessage,
  type Lock,
  type LossReason,
  type RoundMessage,
} from 'nestjs-locked';

import { systemEnvironment } from '../../lib/core/environment.js';
import { createObserver } from '../../lib/nest/telemetry.js';
import { afterTest } from '../support/after-test.js';
import { blockFor } from '../support/block-for.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { Log, quick, startPlain, threeNodes } from './support/applications.js';
import { faultyNodes, loseLock } from './support/faulty-nodes.js';
import { rejection } from './support/events.js';

function listen<T = unknown>(name: string): T[] {
  const messages: T[] = [];
  const listener = (message: unknown): void => void messages.push(message as T);
  subscribe(`nestjs-locked:${name}`, listener);
  afterTest(async () => unsubscribe(`nestjs-locked:${name}`, listener));
  return messages;
}

/** An application whose requests are told apart, and which of them each warning was logged in. */
async function startInRequests() {
  const requests = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  const see = (): void => void seen.push(requests.getStore());
  await startPlain({}, Object.assign(new Log(), { warn: see }));
  return { requests, seen, see };
}

const gone = 'the key was missing or is held by another owner';
const where = 'The channel nestjs-locked:lost names resources';
const neverExtended = { resources: ['a'], lostError: () => ({ votes: [] }) } as unknown as Lock;

describe('the diagnostics channels', () => {
  it('tell of each acquisition, refusal and release', async () => {
    const acquisitions = listen<AcquireMessage>('acquire');
    const releases = listen('release');
    const imports = [RedlockModule.forRoot(threeNodes(), quick)];
    const redlock = (await startPlain({ imports })).get(RedlockService);

    const lock = await redlock.acquire('a');
    await redlock.tryAcquire('a');
    await lock.release();

    const { ownerId, fencingToken, resources } = lock;
    const common = { redlock: 'default', resources, attempts: 1, waited: expect.any(Number) };
    expect(acquisitions).toEqual([
      { ...common, error: undefined, isAborted: false, ownerId, fencingToken },
      { ...common, error: expect.any(Error), isAborted: false, ownerId: null, fencingToken: null },
    ]);
    expect(releases).toEqual([
      { redlock: 'default', resources, ownerId, heldFor: expect.any(Number) },
    ]);
  });

  it('tell of each extension, and of the validity it gave', async () => {
    const extensions = listen<ExtendMessage>('extend');
    const imports = [RedlockModule.forRoot(threeNodes(), quick)];
    const redlock = (await startPlain({ imports })).get(RedlockService);

    const lock = await redlock.acquire('a', 5_000);
    await lock.extend(10_000);
    const { ownerId, resources } = lock;
    await lock.release();

    const remaining: unknown = expect.any(Number);
    expect(extensions).toEqual([{ redlock: 'default', resources, ownerId, remaining }]);
    expect(extensions[0]?.remaining).toBeGreaterThan(9_000);
  });

  it('tell of each round: of attempts and of extensions, granted or not', async () => {
    const rounds = listen<RoundMessage>('round');
    const imports = [RedlockModule.forRoot(threeNodes(), quick)];
    const redlock = (await startPlain({ imports })).get(RedlockService);

    const lock = await redlock.acquire('a', 5_000);
    await redlock.tryAcquire('a');
    await lock.extend(10_000);
    await lock.release();

    const common = { redlock: 'default', resources: ['a'], duration: expect.any(Number) };
    expect(rounds).toEqual([
      { ...common, operation: 'acquire', isGranted: true },
      { ...common, operation: 'acquire', isGranted: false },
      { ...common, operation: 'extend', isGranted: true },
    ]);
  });

  it('tell of a lost lock; one line is logged, with what each node said last', async () => {
    const losses = listen('lost');
    const log = new Log();
    const nodes = faultyNodes();
    const imports = [RedlockModule.forRoot(nodes, { name: 'billing' })];
    const module = await startPlain({ imports }, log);
    const redlock = module.get<RedlockService>(getRedlockToken('billing'));

    await rejection(redlock.using('a', (lock) => loseLock(nodes, lock)));

    expect(losses).toEqual([
      {
        redlock: 'billing',
        resources: ['a'],
        ownerId: expect.any(String),
        reason: 'revoked',
        heldFor: expect.any(Number),
      },
    ]);
    const said = ['a', 'b', 'c'].map((node) => `${node} revoked (${gone})`).join(', ');
    expect(log.lines.filter(([level]) => level === 'warn')).toEqual([
      ['warn', `[billing] Lost a lock: revoked. Nodes: ${said}. ${where}`, 'Redlock'],
    ]);
  });

  it('tell of a change of a node, which is logged once: as trouble or as news', async () => {
    const changes = listen('node');
    const log = new Log();
    await startPlain({}, log);
    const observer = createObserver('default', systemEnvironment);
    const status = new MemoryNode().status();

    observer.nodeChanged(status, 'it is down', true);
    observer.nodeChanged(status, 'it is up', false);

    expect(changes).toEqual([
      { redlock: 'default', status, message: 'it is down', isTrouble: true },
      { redlock: 'default', status, message: 'it is up', isTrouble: false },
    ]);
    expect(log.lines.filter((line) => line[2] === 'Redlock')).toEqual([
      ['warn', `${status.name}: it is down`, 'Redlock'],
      ['log', `${status.name}: it is up`, 'Redlock'],
    ]);
  });

  it('tell of a node, and the log too, outside of the request that met with it', async () => {
    const { requests, seen, see } = await startInRequests();
    subscribe('nestjs-locked:node', see);
    afterTest(async () => unsubscribe('nestjs-locked:node', see));
    const observer = createObserver('default', systemEnvironment);
    const status = new MemoryNode().status();

    requests.run('/orders/42', () => observer.nodeChanged(status, 'it refuses locks', true));

    expect(seen).toEqual([undefined, undefined]);
  });

  it.each(['acquire', 'round', 'extend'])(
    'harm no lock whose names a subscriber would hide in place: %s',
    async (name) => {
      const hide = (message: unknown): void => {
        Reflect.set((message as { readonly resources: object }).resources, 0, 'hidden');
      };
      subscribe(`nestjs-locked:${name}`, hide);
      afterTest(async () => unsubscribe(`nestjs-locked:${name}`, hide));
      const imports = [RedlockModule.forRoot(threeNodes(), quick)];
      const redlock = (await startPlain({ imports })).get(RedlockService);

      const lock = await redlock.acquire('a');
      await lock.extend();
      await lock.release();

      expect(lock.resources).toEqual(['a']);
      expect(await redlock.inspect('a')).toMatchObject({ state: 'free' });
    },
  );

  it('cost nothing while nobody listens: no property of a lock is read', async () => {
    const observer = createObserver('default', systemEnvironment);
    const untouchable = new Proxy({} as Lock, {
      get: () => {
        throw new Error('read');
      },
    });

    observer.acquired(untouchable, 1, 1);
    observer.released(untouchable, 1);
    observer.extended(untouchable);
    observer.roundDecided('acquire', ['a'], 1, true);
    observer.refused(['a'], new Error('taken'), 1, 1, false);
  });
});

describe('the log', () => {
  it('tells of a lost lock after its holder, so that a logger that throws harms no lock', async () => {
    const order: string[] = [];
    const log = new Log();
    log.warn = () => void order.push('log');
    const nodes = faultyNodes();
    const module = await startPlain({ imports: [RedlockModule.forRoot(nodes, quick)] }, log);
    const lock = await module.get(RedlockService).acquire('a');
    lock.signal.addEventListener('abort', () => order.push('holder'));

    await loseLock(nodes, lock);

    expect(order).toEqual(['holder', 'log']);
  });

  it('says of a lock that a blocked process lost that its nodes had granted it', async () => {
    const log = new Log();
    const imports = [RedlockModule.forRoot(faultyNodes())];
    const redlock = (await startPlain({ imports }, log)).get(RedlockService);

    const error = await rejection(
      redlock.using('a', { ttl: 300 }, async (lock) => {
        await lock.extend();
        blockFor(300);
      }),
    );

    expect(error).toMatchObject({ reason: 'expired' });
    expect(log.lines.filter(([level]) => level === 'warn')).toEqual([
      ['warn', `Lost a lock: expired. Nodes: a granted, b granted, c granted. ${where}`, 'Redlock'],
    ]);
  });

  it('counts the locks that are lost within a second of one it told of', async () => {
    const log = new Log();
    await startPlain({}, log);
    const environment = new SimulatedEnvironment();
    const observer = createObserver('default', environment);
    const lose = (reason: LossReason, times: number): void => {
      for (let time = 0; time < times; time += 1) observer.lost(neverExtended, reason, 1);
    };

    lose('expired', 1_000);
    const holding = environment.processHoldingTimers;
    await environment.advance(999);
    lose('revoked', 2);
    await environment.advance(1);
    lose('revoked', 2);
    await environment.advance(1_000);
    lose('maxHold', 1);
    await environment.advance(1_000);

    expect(log.lines.filter(([, , context]) => context === 'Redlock')).toEqual(
      ['a lock: expired. Nodes: none asked', '999 more: expired', '2 more: revoked']
        .concat(['a lock: revoked. Nodes: none asked', '1 more: revoked'])
        .concat(['a lock: maxHold. Nodes: none asked'])
        .map((what) => ['warn', `Lost ${what}. ${where}`, 'Redlock']),
    );
    expect(environment.pendingTimers).toBe(0);
    expect(holding).toBe(0);
  });

  it('counts lost locks outside of the request in which the first of them was lost', async () => {
    const { requests, seen } = await startInRequests();
    const environment = new SimulatedEnvironment();
    const observer = createObserver('default', environment);

    await requests.run('/orders/42', () => {
      observer.lost(neverExtended, 'expired', 1);
      observer.lost(neverExtended, 'expired', 1);
      return environment.advance(1_000);
    });

    expect(seen).toEqual(['/orders/42', undefined]);
  });

  it('has no line about contention', async () => {
    const log = new Log();
    const imports = [RedlockModule.forRoot(threeNodes(), quick)];
    const redlock = (await startPlain({ imports }, log)).get(RedlockService);
    const before = log.lines.length;

    await redlock.using('a', () => 1);
    const lock = await redlock.acquire('a');
    await redlock.tryAcquire('a');
    await rejection(redlock.acquire('a'));
    await lock.release();

    expect(log.lines.length).toBe(before);
  });
});
