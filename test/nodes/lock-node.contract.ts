// What core relies on, of every kind of node. Source: PROTOCOL.md sections 4, 5, 7 and 8.
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

import type { LockNode } from '../../lib/core/lock-node.js';
import {
  acquire,
  extend,
  inspect,
  release,
  requestFor as requestOf,
  worldOf,
  tokenAt,
  type Expire,
  type RequestFor,
} from '../support/node-harness.js';
import { acquiring } from './lock-node.acquiring-contract.js';
import { fencing } from './lock-node.fencing-contract.js';
import { listening } from './lock-node.listening-contract.js';

/** A fresh, empty node, and the means to make its keys expire. */
export interface NodeUnderTest {
  readonly node: LockNode;
  /** The same node, as another process knows it. */
  readonly other: LockNode;
  /** The node's wall clock, in ms. */
  now(): number;
  readonly expire: Expire;
}

/** Describes what every node does, over nodes that `start` makes and `stop` ends. */
export function describeLockNode(
  kind: string,
  start: () => Promise<NodeUnderTest>,
  stop: () => Promise<void>,
): void {
  describe(`a lock node (${kind})`, () => {
    let world: NodeUnderTest;
    let node: LockNode;

    beforeEach(async () => {
      world = await start();
      node = world.node;
    });

    afterEach(stop);

    const requestsIn =
      (fencing: boolean): RequestFor =>
      (overrides = {}) => {
        tokenCount += 1;
        const token = fencing ? tokenAt(world.now(), tokenCount) : 0;
        return requestOf({ world: fencing ? FENCED : UNFENCED, token, ...overrides });
      };

    describe.each([
      ['with fencing', true],
      ['without fencing', false],
    ])('%s', (_, isFenced) => {
      const requestFor = requestsIn(isFenced);

      const expire = (keys: readonly string[]): Promise<void> => world.expire(keys);

      describe('acquire', () => acquiring(() => node, requestFor, expire));
      describe('extend', () => extending(() => node, requestFor, expire));
      describe('release', () => releasing(() => node, requestFor));
      describe('listen', () =>
        listening(
          () => node,
          () => world.other,
          requestFor,
        ));
      describe('inspect and status', () => looking(() => node, requestFor, expire));
    });
    describe('fencing', () =>
      fencing(
        () => node,
        requestsIn(true),
        () => world.now(),
      ));
  });
}

const FENCED = worldOf();
const UNFENCED = worldOf({ fencing: false });

let tokenCount = 0;

function extending(node: () => LockNode, requestFor: RequestFor, expire: Expire): void {
  async function remaining(resource: string): Promise<number> {
    const found = await inspect(node(), worldOf(), resource);
    return found.vote === 'found' ? found.remaining : -1;
  }

  it('gives every key the ttl', async () => {
    const request = requestFor({ resources: ['a', 'b'], ttl: 1_000 });
    await acquire(node(), request);

    const answer = await extend(node(), { ...request, ttl: 20_000 });

    expect(answer).toEqual({ vote: 'granted' });
    expect(await remaining('a')).toBeGreaterThan(19_000);
    expect(await remaining('b')).toBeGreaterThan(19_000);
  });

  it('never shortens a key', async () => {
    const request = requestFor({ ttl: 20_000 });
    await acquire(node(), request);

    const answer = await extend(node(), { ...request, ttl: 1_000 });

    expect(answer).toEqual({ vote: 'granted' });
    expect(await remaining('r')).toBeGreaterThan(19_000);
  });

  it('is revoked where a key is gone, creates it, and is granted when it finds it', async () => {
    const request = requestFor({ resources: ['a', 'b'] });
    await acquire(node(), request);
    await expire(['a', 'b']);

    const first = await extend(node(), request);
    const lifetimes = [await remaining('a'), await remaining('b')];
    const second = await extend(node(), request);

    expect([first, second]).toEqual([{ vote: 'revoked' }, { vote: 'granted' }]);
    // A key without an end would stay for ever if its owner died now.
    expect(Math.min(...lifetimes)).toBeGreaterThan(9_000);
    expect(await remaining('a')).toBeGreaterThan(9_000);
    expect(await remaining('b')).toBeGreaterThan(9_000);
  });

  it('is revoked by another owner of one key, and writes nothing', async () => {
    const request = requestFor({ resources: ['a', 'b'], ttl: 1_000 });
    await acquire(node(), request);
    await expire(['a', 'b']);
    const other = requestFor({ resources: ['b'] });
    await acquire(node(), other);

    const answer = await extend(node(), { ...request, ttl: 20_000 });

    expect(answer).toEqual({ vote: 'revoked' });
    const found = await Promise.all(['a', 'b'].map((key) => inspect(node(), worldOf(), key)));
    expect(found).toMatchObject([{ ownerId: null }, { ownerId: other.ownerId }]);
  });
}

function releasing(node: () => LockNode, requestFor: RequestFor): void {
  it('frees all resources at once', async () => {
    const request = requestFor({ resources: ['a', 'b'] });
    await acquire(node(), request);

    const answer = await release(node(), request);

    expect(answer).toEqual({ vote: 'done', listeners: 0, overdue: 0 });
    const next = await acquire(node(), requestFor({ resources: ['a', 'b'] }));
    expect(next.vote).toBe('granted');
  });

  it('is done where there is nothing to delete, time and again', async () => {
    const request = requestFor();

    const answers = [await release(node(), request), await release(node(), request)];

    expect(answers).toEqual([
      { vote: 'done', listeners: 0, overdue: 0 },
      { vote: 'done', listeners: 0, overdue: 0 },
    ]);
  });

  it("leaves another owner's key", async () => {
    const request = requestFor();
    await acquire(node(), request);

    await release(node(), requestFor());

    expect(await inspect(node(), request.world, 'r')).toMatchObject({ ownerId: request.ownerId });
  });
}

function looking(node: () => LockNode, requestFor: RequestFor, expire: Expire): void {
  it('finds nobody at a free resource', async () => {
    const answer = await inspect(node(), worldOf(), 'r');

    expect(answer).toEqual({ vote: 'found', ownerId: null, remaining: 0, refusal: '' });
  });

  it('finds the owner and what is left of the ttl', async () => {
    const request = requestFor({ ttl: 5_000 });
    await acquire(node(), request);

    const answer = await inspect(node(), request.world, 'r');

    expect(answer).toMatchObject({ vote: 'found', ownerId: request.ownerId });
    const remaining = answer.vote === 'found' ? answer.remaining : 0;
    expect(remaining).toBeGreaterThan(4_000);
    expect(remaining).toBeLessThanOrEqual(5_000);
  });

  it('finds nobody where a lock has expired', async () => {
    await acquire(node(), requestFor());
    await expire(['r']);

    const answer = await inspect(node(), worldOf(), 'r');

    expect(answer).toMatchObject({ vote: 'found', ownerId: null, remaining: 0 });
  });

  it('keeps the owners of two prefixes apart', async () => {
    const world = { ...requestFor().world, keyPrefix: 'p:' };
    const request = requestFor({ world });
    await acquire(node(), request);

    const answers = [await inspect(node(), world, 'r'), await inspect(node(), worldOf(), 'r')];

    expect(answers).toMatchObject([{ ownerId: request.ownerId }, { ownerId: null }]);
  });

  it('is up and knows how far its clock is from ours', () => {
    const status = node().status();

    expect(status).toMatchObject({ name: node().name, state: 'up', quarantineRemaining: 0 });
    expect(Math.abs(status.clockOffset ?? Infinity)).toBeLessThan(1_000);
  });
}
