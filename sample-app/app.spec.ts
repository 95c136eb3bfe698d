import { setImmediate } from 'node:timers/promises';

import { describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { MemoryNode } from 'nestjs-locked';

import { startSampleApp } from '../test/support/sample-app.js';
import type { AppOptions } from './app.module.js';
import { ReportService } from './report/report.service.js';
import { MemoryStore } from './store/memory-store.js';

interface TestApp {
  readonly app: INestApplication;
  get(path: string): Promise<Answer>;
  put(path: string, body: object): Promise<Answer>;
  post(path: string, body?: object): Promise<Answer>;
}

interface Answer {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly body: Record<string, unknown>;
}

/** Starts a replica: a real application over HTTP. Two are given the same node and store. */
async function startApp(options: Partial<AppOptions> = {}): Promise<TestApp> {
  const store = options.store ?? new MemoryStore();
  await store.seed({ 'sku:apple': 100, 'account:alice': 100, 'account:bob': 100 });
  const world = { nodes: undefined, isLocked: true, ...options, store };
  const { app, url } = await startSampleApp(world);
  const send = async (method: string, path: string, body?: object): Promise<Answer> => {
    const response = await fetch(url + path, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return {
      status: response.status,
      retryAfter: response.headers.get('retry-after'),
      body: (await response.json()) as Record<string, unknown>,
    };
  };
  return {
    app,
    get: (path) => send('GET', path),
    put: (path, body) => send('PUT', path, body),
    post: (path, body) => send('POST', path, body),
  };
}

/** Two replicas over the same node and store. */
async function startTwo(isLocked = true): Promise<[TestApp, TestApp]> {
  const shared = { nodes: [new MemoryNode()], store: new RemoteStore(), isLocked };
  return [await startApp(shared), await startApp(shared)];
}

async function buyAtOnce(replicas: [TestApp, TestApp], count: number): Promise<number[]> {
  const purchases = Array.from({ length: count }, (_, index) =>
    replicas[index % 2 ? 1 : 0].post('/inventory/pear/reserve', { quantity: 1 }),
  );
  return (await Promise.all(purchases)).map(({ status }) => status);
}

describe('the home page', () => {
  it('says what to try, with the address that it was asked by', async () => {
    const { app } = await startApp();
    const url = await app.getUrl();

    const page = await (await fetch(url)).text();

    expect(page).toContain(`curl ${new URL(url).host}/inventory/apple`);
  });
});

describe('the inventory', () => {
  it('sells a piece, and tells the fencing token it was sold under', async () => {
    const { get, post } = await startApp();

    const { status, body } = await post('/inventory/apple/reserve', { quantity: 3 });

    expect(status).toBe(201);
    expect(body).toEqual({
      sku: 'apple',
      quantity: 3,
      stock: 97,
      fencingToken: expect.any(Number),
    });
    expect(await get('/inventory/apple')).toMatchObject({ status: 200, body: { stock: 97 } });
  });

  it('sells exactly what there is to buyers who come to two replicas at once', async () => {
    const replicas = await startTwo();
    await replicas[0].put('/inventory/pear', { stock: 10 });

    const statuses = await buyAtOnce(replicas, 30);

    expect(statuses.filter((status) => status === 201)).toHaveLength(10);
    expect(statuses.filter((status) => status === 409)).toHaveLength(20);
    expect(await replicas[0].get('/inventory/pear')).toMatchObject({ body: { stock: 0 } });
  });

  it('oversells without the lock', async () => {
    const replicas = await startTwo(false);
    await replicas[0].put('/inventory/pear', { stock: 10 });

    const statuses = await buyAtOnce(replicas, 30);

    expect(statuses.filter((status) => status === 201).length).toBeGreaterThan(10);
  });

  it('refuses the write of a holder that was overtaken, and says when to come again', async () => {
    const store = new OvertakenStore();
    const { get, post } = await startApp({ store });

    const { status, retryAfter, body } = await post('/inventory/apple/reserve', { quantity: 1 });

    expect({ status, retryAfter }).toEqual({ status: 503, retryAfter: '1' });
    expect(body.message).toMatch(/stale/);
    expect(await get('/inventory/apple')).toMatchObject({ body: { stock: 100 } });
  });

  it.each([
    ['no body', '/inventory/apple/reserve', undefined],
    ['no quantity', '/inventory/apple/reserve', {}],
    ['a quantity of 0', '/inventory/apple/reserve', { quantity: 0 }],
    ['half a piece', '/inventory/apple/reserve', { quantity: 0.5 }],
    ['a quantity in words', '/inventory/apple/reserve', { quantity: '1' }],
    ['a sku with a space', '/inventory/a%20b/reserve', { quantity: 1 }],
  ])('answers 400 to %s', async (_what, path, body) => {
    const { post } = await startApp();

    const answer = await post(path, body);

    expect(answer.status).toBe(400);
    expect(answer.body.message).toMatch(/^Expected (quantity|sku) to/);
  });

  it('answers 404 to an unknown sku', async () => {
    const { get, post } = await startApp();

    expect((await get('/inventory/plum')).status).toBe(404);
    expect((await post('/inventory/plum/reserve', { quantity: 1 })).status).toBe(404);
  });
});

describe('a transfer', () => {
  it('keeps the sum of two accounts while replicas move money both ways', async () => {
    const replicas = await startTwo();

    const transfers = await Promise.all(
      Array.from({ length: 16 }, (_, index) => {
        const [from, to] = index % 4 < 2 ? ['alice', 'bob'] : ['bob', 'alice'];
        return replicas[index % 2 ? 1 : 0].post('/accounts/transfer', {
          from,
          to,
          amount: index + 1,
        });
      }),
    );

    expect(new Set(transfers.map(({ status }) => status))).toEqual(new Set([201]));
    const alice = await replicas[0].get('/accounts/alice');
    const bob = await replicas[1].get('/accounts/bob');
    expect(Number(alice.body.balance) + Number(bob.body.balance)).toBe(200);
  });

  it('moves nothing when the payer has too little', async () => {
    const { get, post } = await startApp();

    const { status } = await post('/accounts/transfer', { from: 'alice', to: 'bob', amount: 101 });

    expect(status).toBe(409);
    expect(await get('/accounts/bob')).toMatchObject({ body: { balance: 100 } });
  });

  it('answers 400 to a transfer from an account to itself', async () => {
    const { post } = await startApp();

    const { status } = await post('/accounts/transfer', { from: 'bob', to: 'bob', amount: 1 });

    expect(status).toBe(400);
  });
});

describe('the report', () => {
  it('runs once when its time comes in two replicas', async () => {
    const replicas = await startTwo();

    const reports = await Promise.all(replicas.map(({ app }) => app.get(ReportService).run()));

    expect(reports.filter((report) => report !== undefined)).toEqual([
      { pieces: 100, fencingToken: expect.any(Number) },
    ]);
  });

  it('is skipped for a while after it has run, also where the clock is late', async () => {
    const [first, second] = await startTwo();

    expect((await first.post('/report')).body).toMatchObject({ pieces: 100 });
    expect((await second.post('/report')).body).toEqual({ skipped: true });
  });
});

describe('a slow endpoint', () => {
  it('keeps others out for longer than its ttl', async () => {
    const [first, second] = await startTwo();
    const startedAt = performance.now();
    let isRunning = true;
    const slow = first.post('/slow/import?seconds=4').finally(() => (isRunning = false));
    await first.get('/locks/status');

    const statuses = new Set<number>();
    while (performance.now() - startedAt < 1_500) {
      statuses.add((await second.post('/slow/import?seconds=1')).status);
    }

    expect(isRunning).toBe(true);
    expect(statuses).toEqual(new Set([423]));
    expect(await slow).toMatchObject({ status: 201, body: { job: 'import', heldFor: '4 s' } });
  });

  it.each([
    ['is longer than that of any lock', 'a'.repeat(600)],
    ['has a space', 'a%20b'],
  ])('answers 400 to a job whose name %s', async (_what, job) => {
    const { post } = await startApp();

    const { status, body } = await post(`/slow/${job}?seconds=1`);

    expect(status).toBe(400);
    expect(body.message).toMatch(/^Expected job to match/);
  });
});

describe('the status of the locks', () => {
  it('tells the nodes, and who holds a resource', async () => {
    const { get } = await startApp();

    const { status, body } = await get('/locks/status?resource=sku:apple');

    expect(status).toBe(200);
    expect(body).toMatchObject({
      quorum: 1,
      nodes: [{ state: 'up' }],
      resource: { resource: 'sku:apple', state: 'free' },
    });
  });

  it('answers 400 to a name that the protocol keeps for itself', async () => {
    const { get } = await startApp();

    expect((await get('/locks/status?resource=redlock:node')).status).toBe(400);
  });
});

/** A store as slow as a real one: between two commands of a call there is time for another's. */
class RemoteStore extends MemoryStore {
  override async write(values: Readonly<Record<string, number>>, token: number): Promise<void> {
    await setImmediate();
    await super.write(values, token);
  }
}

/** After each read of a holder, a newer holder reads too: as if the first had been paused. */
class OvertakenStore extends MemoryStore {
  override async read(name: string, token: number): Promise<number | null> {
    const value = await super.read(name, token);
    await super.read(name, token + 1);
    return value;
  }
}
