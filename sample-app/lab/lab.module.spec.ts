// What the lab answers over HTTP, in one process and without a page.
import { once } from 'node:events';
import { connect } from 'node:net';

import { beforeEach, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { MemoryNode } from 'nestjs-locked';
import { firstValueFrom, lastValueFrom, take, toArray } from 'rxjs';

import { startSampleApp } from '../../test/support/sample-app.js';
import { MemoryStore } from '../store/memory-store.js';
import { Feed } from './feed.js';
import { VISITS_KEPT } from './kept.js';
import type { Changes, Snapshot, Visit } from './messages.js';

const SALE = { stock: 1, buyers: 1, replicas: 1, section: 1, isLocked: true, isEndless: false };
const LOCK = { ttl: 5_000, wait: 0, watchdog: false };

describe('the lab', () => {
  let app: INestApplication;
  let url: string;

  beforeEach(async () => {
    const lab = { nodes: undefined, ownNodes: [], storeUrl: undefined };
    const world = { nodes: [new MemoryNode()], store: new MemoryStore(), isLocked: true, lab };
    ({ app, url } = await startSampleApp(world));
  });

  function post(path: string, body: object = {}, headers: object = {}): Promise<Response> {
    return fetch(`${url}/lab/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  }

  it('tells a page first how everything is', async () => {
    const { log, nodes, setting } = await firstMessage(`${url}/lab/events`);

    expect(setting).toMatchObject({ quorum: 1, ttlMax: 5_000, hasOwnNodes: false });
    expect(nodes).toMatchObject([{ status: { state: 'up' }, process: null }]);
    expect(log).toEqual([]);
  });

  it('tells what happened before in pieces: each is heard soon, also on a slow line', async () => {
    const feed = app.get(Feed);
    const ids = Array.from({ length: VISITS_KEPT }, (_, count) => `${count}`);
    ids.forEach((id) => feed.visit(visit(id)));
    const open = firstValueFrom(feed.stream().pipe(take(31), toArray()));
    feed.visit(visit('new'));

    const messages = (await open).map(({ data }) => data as Changes);

    expect(Math.max(...messages.map((data) => JSON.stringify(data).length))).toBeLessThan(100_000);
    const told = messages.flatMap(({ visits = [] }) => visits.map(({ id }) => id));
    expect(told).toEqual([...ids, 'new']);
  });

  it('ends when the application does, also for a page that comes then', async () => {
    const feed = app.get(Feed);
    const open = lastValueFrom(feed.stream());

    feed.onModuleDestroy();

    expect(await open).toMatchObject({ type: 'snapshot' });
    expect(await lastValueFrom(feed.stream(), { defaultValue: 'ended' })).toBe('ended');
  });

  it('lets the application end while a browser keeps a connection for later', async () => {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port) });
    await once(socket, 'connect');
    // Once this is answered, the server has seen the connection that was opened before.
    await fetch(`${url}/lab/locks/demo`);

    await Promise.all([once(socket, 'close'), app.close()]);
  });

  it('tells in the log what happened to a lock', async () => {
    await post('locks/demo/acquire', LOCK);
    await post('locks/demo/acquire', LOCK);

    const { log } = await firstMessage(`${url}/lab/events`);

    expect(log.map(({ kind, source }) => [kind, source])).toEqual([
      ['acquired', 'app'],
      ['refused', 'app'],
    ]);
    expect(log[1]).toMatchObject({
      text: expect.stringMatching(
        /^LockTakenError: .*held by another owner for another \d+ ms, unless extended$/,
      ),
      votes: [{ vote: 'taken' }],
    });
  });

  it('refuses what a page of another site sends', async () => {
    const foreign = await post('job/start', {}, { origin: 'http://elsewhere.example' });
    const odd = await post('job/start', {}, { origin: 'null' });
    const own = await post('job/stop', {}, { origin: url });

    expect([foreign.status, odd.status, own.status]).toEqual([403, 403, 200]);
  });

  it('touches no node that it has not started', async () => {
    const answers = await Promise.all(
      ['nodes/1/kill', 'nodes/0/freeze', 'nodes/one/kill'].map((path) => post(path)),
    );

    expect(answers.map(({ status }) => status)).toEqual([404, 404, 400]);
  });

  it('says why there can be no sale without Redis', async () => {
    const answer = await post('sale/start', SALE);

    expect(answer.status).toBe(409);
    expect(await answer.json()).toMatchObject({
      message: expect.stringMatching('Install redis-server'),
    });
  });

  it.each([
    ['no stock', { stock: 0 }],
    ['five replicas', { replicas: 5 }],
    ['half a buyer', { buyers: 0.5 }],
    ['a switch in words', { isLocked: 'perhaps' }],
  ])('answers 400 to %s', async (_what, part) => {
    expect((await post('sale/start', { ...SALE, ...part })).status).toBe(400);
  });

  it('locks by hand: acquired, taken, extended, released, free', async () => {
    const acquired = await post('locks/demo/acquire', LOCK);
    const { ownerId, fencingToken } = (await acquired.json()) as Record<string, unknown>;
    const taken = await post('locks/demo/acquire', LOCK);
    const extended = await post('locks/demo/extend', { ownerId, ttl: 3_000 });
    const released = await post('locks/demo/release', { ownerId });
    const again = await post('locks/demo/release', { ownerId });
    const inspected = await fetch(`${url}/lab/locks/demo`);

    const answers = [acquired, taken, extended, released, again, inspected];
    expect(answers.map(({ status }) => status)).toEqual([201, 423, 200, 204, 404, 200]);
    expect(Number(taken.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await extended.json()).toMatchObject({ resource: 'demo', ownerId, fencingToken });
    expect(await inspected.json()).toMatchObject({ state: 'free' });
  });

  it.each([
    ['a ttl above ttlMax', 'locks/demo/acquire', { ...LOCK, ttl: 5_001 }],
    ['a name that the protocol keeps for itself', 'locks/redlock:node/acquire', LOCK],
    ['an owner id of another shape', 'locks/demo/release', { ownerId: "'; --" }],
  ])('answers 400 to %s', async (_what, path, body) => {
    expect((await post(path, body)).status).toBe(400);
  });

  it('works on one long job at a time', async () => {
    const started = await post('job/start');
    const twice = await post('job/start');
    const stopped = await post('job/stop');

    expect([started.status, twice.status, stopped.status]).toEqual([200, 409, 200]);
  });
});

function visit(id: string): Visit {
  return {
    id,
    replica: 1,
    counter: 0,
    cameAt: 123_456_789.012,
    enteredAt: 123_456_799.123,
    token: 1_795_839_960_086_158,
    leftAt: 123_456_809.345,
    outcome: 'sold',
  };
}

/** The snapshot with which a stream of events begins. */
async function firstMessage(url: string): Promise<Snapshot> {
  const response = await fetch(url);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; ;) {
    const piece = await reader?.read();
    text += piece?.value ?? '';
    const [, data] = /^data: (.*)\n\n/m.exec(text) ?? [];
    if (data !== undefined) {
      await reader?.cancel();
      return JSON.parse(data) as Snapshot;
    }
    if (piece?.done !== false) throw new Error(`The stream has ended: ${text}`);
  }
}
