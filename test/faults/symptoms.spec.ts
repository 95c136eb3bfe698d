// What locks are known to get wrong, where only real servers can show it.
import { once } from 'node:events';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  LockLostError,
  LockTakenError,
  NoQuorumError,
  RedlockClosedError,
  type Lock,
  type NodeInput,
  type RedlockModuleOptions,
} from 'nestjs-locked';

import { afterTest } from '../support/after-test.js';
import { duration } from '../support/duration.js';
import { eventually } from '../support/eventually.js';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.js';
import {
  locksOn,
  startApplication,
  startObserved,
  stopObserved,
  type LockingApplication,
  type ObservedServer,
} from './lock-domain.js';

let servers: ObservedServer[];
let first: ObservedServer;
let last: ObservedServer;
const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown): void => void unhandled.push(reason);

beforeAll(async () => {
  process.on('unhandledRejection', onUnhandled);
  servers = await startObserved(3);
  [first, , last] = servers as [ObservedServer, ObservedServer, ObservedServer];
});

afterAll(async () => {
  process.off('unhandledRejection', onUnhandled);
  await stopObserved(servers);
});

async function start(
  options: RedlockModuleOptions = {},
  nodes: readonly NodeInput[] = servers.map(({ url }) => url),
): Promise<LockingApplication> {
  const application = await startApplication(nodes, options);
  afterTest(() => application.app.close());
  return application;
}

/** Whether a node has a token of this lock on record. */
async function isRecorded({ client }: ObservedServer, key: string): Promise<boolean> {
  const hashes = ['redlock:fences:even', 'redlock:fences:odd'];
  const found = await Promise.all(hashes.map((hash) => client.hexists(hash, key)));
  return found.includes(1);
}

async function startProxies(): Promise<TcpProxy[]> {
  const proxies = await Promise.all(servers.map(({ port }) => startTcpProxy(port)));
  afterTest(() => Promise.all(proxies.map((proxy) => proxy.close())));
  return proxies;
}

function freeze(...frozen: readonly ObservedServer[]): () => void {
  const thaw = (): void => {
    for (const server of frozen) server.thaw();
  };
  for (const server of frozen) server.freeze();
  afterTest(thaw);
  return thaw;
}

function forResult<T>(promise: Promise<T>): Promise<unknown> {
  return promise.then(
    (value) => value,
    (error: unknown) => error,
  );
}

/** Resolves with the last instant at which the lock had promised to be held, when it aborts. */
async function aborted({ signal }: Lock, promise: () => number): Promise<number> {
  let promisedUntil = promise();
  const watch = setInterval(() => {
    // Not near the end: who asks a lock that is over makes its signal abort.
    if (promisedUntil < performance.now() + 100) return;
    promisedUntil = Math.max(promisedUntil, promise());
  }, 10);
  if (!signal.aborted) await once(signal, 'abort');
  clearInterval(watch);
  return promisedUntil;
}

describe('one hung node of three', () => {
  it('slows neither acquire nor release: both keep the pace of the majority', async () => {
    const { redlock } = await start({ nodeTimeout: 1_000 });
    freeze(last);

    const times: number[] = [];
    for (let pair = 0; pair < 15; pair += 1) {
      times.push(
        await duration(async () => {
          const lock = await redlock.acquire('pace');
          await lock.release();
        }),
      );
    }

    // Before it is suspended: who waits for it takes a node timeout for each of the first two.
    expect(Math.min(...times.slice(0, 2))).toBeLessThan(500);
    const [median = Infinity] = times.sort((a, b) => a - b).slice(7);
    expect(median).toBeLessThan(500);
  });

  it('does not stretch `wait`', async () => {
    const [{ redlock }, { redlock: other }] = [await start({ nodeTimeout: 7_500 }), await start()];
    const lock = await other.acquire('waited-for', 30_000);
    freeze(last);

    const startedAt = performance.now();
    const refused = await forResult(redlock.acquire('waited-for', 30_000, { wait: 400 }));
    const waited = performance.now() - startedAt;

    expect(refused).toBeInstanceOf(LockTakenError);
    expect(waited).toBeGreaterThanOrEqual(399);
    // Who waits for the hung node takes a node timeout.
    expect(waited).toBeLessThan(4_000);
    await lock.release();
  });
});

describe('an attempt that failed', () => {
  it('is undone on the node that hung, soon after it goes on', async () => {
    const { redlock } = await start();
    for (const { client } of servers.slice(0, 2)) await client.set('undone', 'other', 'PX', 60_000);
    const thaw = freeze(last);

    const refused = await forResult(redlock.acquire('undone', 30_000, { wait: 0 }));
    thaw();
    await eventually(() => isRecorded(last, 'undone'));

    expect(refused).toBeInstanceOf(LockTakenError);
    await eventually(async () => (await last.client.exists('undone')) === 0, 5_000);
    for (const { client } of servers.slice(0, 2)) await client.del('undone');
  });

  it('leaves no ghost on nodes that were unreachable', async () => {
    const proxies = await startProxies();
    const { redlock } = await start(
      {},
      proxies.map(({ url }) => url),
    );
    const far = proxies.slice(1);
    await Promise.all(far.map((proxy) => proxy.close()));

    const refused = await forResult(redlock.acquire('ghost', 30_000, { wait: 0 }));
    await Promise.all(far.map((proxy) => proxy.open()));
    await eventually(async () => {
      const { nodes } = await redlock.status();
      return nodes.every(({ state }) => state === 'up');
    });
    // What had been queued would have run by now: it would have gone before this.
    await (await redlock.acquire('after-ghost')).release();

    expect(refused).toBeInstanceOf(NoQuorumError);
    for (const { client } of servers) expect(await client.exists('ghost')).toBe(0);
  });
});

describe('the signal', () => {
  it('aborts when the validity ends while all nodes hang, not seconds later', async () => {
    const { redlock } = await start();
    const lock = await redlock.acquire('hung', 900, { watchdog: true });
    const thaw = freeze(...servers);

    const promisedUntil = await aborted(lock, () => performance.now() + lock.remaining);
    const late = performance.now() - promisedUntil;
    thaw();

    expect(late).toBeLessThan(1_000);
    expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
    await lock.release();
  });

  it('aborts before the validity ends when the keys are gone from all nodes', async () => {
    const { redlock } = await start();
    const lock = await redlock.acquire('deleted', 6_000, { watchdog: true });
    const promisedUntil = performance.now() + lock.remaining;
    for (const { client } of servers) await client.del('deleted');

    await aborted(lock, () => promisedUntil);

    expect(performance.now()).toBeLessThan(promisedUntil);
    expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
    expect(lock.isValid).toBe(false);
    await lock.release();
  });
});

describe('a blocked event loop', () => {
  it('that outlasts the ttl is known in the very next statement', async () => {
    const { redlock } = await start();
    const body = redlock.using('blocked', 400, (lock) => {
      const { signal } = lock;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 450);
      const { isValid } = lock;
      expect(() => lock.assertHeld()).toThrow(LockLostError);
      return [isValid, lock.remaining, signal.aborted];
    });

    expect(await forResult(body)).toMatchObject({ code: 'LOCK_LOST', result: [false, 0, true] });
  });
});

describe('nodes that vanish while locks are extended in the background', () => {
  it('leave no rejection that nobody handles', async () => {
    const proxies = await startProxies();
    const { redlock } = await start(
      {},
      proxies.map(({ url }) => url),
    );
    const unwatched = await redlock.acquire('unwatched', 600, { watchdog: true });
    const body = forResult(
      redlock.using('vanished', 600, async (lock) => {
        await Promise.all(proxies.map((proxy) => proxy.close()));
        await aborted(lock, () => 0);
      }),
    );

    expect(await body).toBeInstanceOf(LockLostError);
    await eventually(() => !unwatched.isValid);
    await unwatched.release();
    await new Promise((resolve) => setImmediate(resolve));
    expect(unhandled).toEqual([]);
  });
});

describe('app.close()', () => {
  it('releases what running bodies held, then disconnects, and leaves my client open', async () => {
    const client = first.client.duplicate();
    afterTest(() => client.disconnect());
    const nodes = [client, ...servers.slice(1).map(({ url }) => url)];
    const { app, redlock } = await start({}, nodes);
    let end = (): void => undefined;
    const body = redlock.using('closing', () => new Promise<void>((resolve) => (end = resolve)));
    await eventually(async () => (await first.client.exists('closing')) === 1);

    const closing = app.close();
    await eventually(async () => (await redlock.status()).isClosed);
    const refused = await forResult(redlock.acquire('late'));
    const whileRunning = await Promise.all(
      servers.map((server) => server.client.exists('closing')),
    );
    end();
    await Promise.all([body, closing]);

    expect(refused).toBeInstanceOf(RedlockClosedError);
    expect(whileRunning).toEqual([1, 1, 1]);
    for (const server of servers) expect(await server.client.exists('closing')).toBe(0);
    expect(await client.ping()).toBe('PONG');
    const connections = String(await first.client.client('LIST'));
    expect(connections).not.toMatch(/name=nestjs-locked /);
  });
});

describe('after all this', () => {
  it('no lock is left on any node', async () => {
    for (const server of servers) {
      await eventually(async () => (await locksOn(server)).length === 0, 3_000);
    }

    expect(unhandled).toEqual([]);
  });
});
