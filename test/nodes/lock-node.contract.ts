// What core relies on, of every kind of node. Source: PROTOCOL.md sections 4, 5, 7 and 8.
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

import { TOKENS_PER_BLOCK } from '../../lib/core/fencing.js';
import type { AcquireAnswer, LockNode, OwnerRequest } from '../../lib/core/lock-node.js';
import { eventually } from '../support/eventually.js';
import {
  acquire,
  extend,
  inspect,
  listen,
  release,
  requestFor as requestOf,
  worldOf,
  tokenAt,
} from '../support/node-harness.js';

/** A fresh, empty node, and the means to make its keys expire. */
export interface NodeUnderTest {
  readonly node: LockNode;
  /** The same node, as another process knows it. */
  readonly other: LockNode;
  /** The node's wall clock, in ms. */
  now(): number;
  /** The keys of these resources expire now. */
  expire(keys: readonly string[]): Promise<void>;
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

    /** Requests of one world, as those of one Redlock. */
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

      describe('acquire', () => acquiring(() => node, requestFor));
      describe('extend', () =>
        extending(
          () => node,
          requestFor,
          (keys) => world.expire(keys),
        ));
      describe('release', () => releasing(() => node, requestFor));
      describe('listen', () =>
        listening(
          () => node,
          () => world.other,
          requestFor,
        ));
      describe('inspect and status', () => looking(() => node, requestFor));
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

type RequestFor = (overrides?: Partial<OwnerRequest>) => OwnerRequest;

let tokenCount = 0;

function acquiring(node: () => LockNode, requestFor: RequestFor): void {
  it('grants a free resource', async () => {
    const answer = await acquire(node(), requestFor());

    expect(answer).toEqual({ vote: 'granted', nodeTime: expect.any(Number) });
  });

  it('says who has the resource, and for how long', async () => {
    const held = requestFor({ ttl: 5_000 });
    await acquire(node(), held);

    const answer = await acquire(node(), requestFor());

    const { ownerId } = held;
    expect(answer).toEqual({ vote: 'taken', remaining: expect.any(Number), nth: 0, ownerId });
    const remaining = answer.vote === 'taken' ? answer.remaining : 0;
    expect(remaining).toBeGreaterThan(4_000);
    expect(remaining).toBeLessThanOrEqual(5_000);
  });

  it('takes all of several resources', async () => {
    await acquire(node(), requestFor({ resources: ['a', 'b', 'c'] }));

    for (const resource of ['a', 'b', 'c']) {
      const answer = await acquire(node(), requestFor({ resources: [resource] }));
      expect(answer.vote).toBe('taken');
    }
  });

  it('takes none of several resources when the last is taken', async () => {
    await acquire(node(), requestFor({ resources: ['c'] }));

    const answer = await acquire(node(), requestFor({ resources: ['a', 'b', 'c'] }));

    expect(answer.vote).toBe('taken');
    expect((await acquire(node(), requestFor({ resources: ['a', 'b'] }))).vote).toBe('granted');
  });

  it('says which of several resources is taken, also where it is asked much at once', async () => {
    const held = requestFor({ resources: ['c'] });
    await acquire(node(), held);
    const wanted = [['a', 'c'], ['d'], ['a', 'b', 'c', 'd'], ['c', 'd'], ['c']];

    const answers = await Promise.all(
      wanted.map((resources) => acquire(node(), requestFor({ resources }))),
    );

    const takenOf = (answer: AcquireAnswer): unknown =>
      answer.vote === 'taken' ? [answer.nth, answer.ownerId] : answer.vote;
    const at = (nth: number): unknown => [nth, held.ownerId];
    expect(answers.map(takenOf)).toEqual([at(1), 'granted', at(2), at(0), at(0)]);
  });

  it('grants the same owner again without a longer ttl', async () => {
    const request = requestFor({ ttl: 5_000 });
    await acquire(node(), request);

    const answer = await acquire(node(), { ...request, ttl: 20_000 });

    expect(answer.vote).toBe('granted');
    const found = await inspect(node(), request.world, 'r');
    expect(found).toMatchObject({ vote: 'found', ownerId: request.ownerId });
    expect(found.vote === 'found' && found.remaining).toBeLessThanOrEqual(5_000);
  });

  it('takes the rest for an owner who has some of several resources', async () => {
    const request = requestFor({ resources: ['a'] });
    await acquire(node(), request);

    const token = request.token + 1;
    const answer = await acquire(node(), { ...request, resources: ['a', 'b'], token });

    expect(answer.vote).toBe('granted');
    expect((await acquire(node(), requestFor({ resources: ['b'] }))).vote).toBe('taken');
  });

  it('takes any name, and keeps the names of two prefixes apart', async () => {
    const resources = ['__proto__', 'größe', 'line\nbreak', 'space d', '{tag}', '🔒'].sort();
    const prefixed = { ...requestFor().world, keyPrefix: 'p:' };

    const answers = [
      await acquire(node(), requestFor({ resources })),
      await acquire(node(), requestFor({ resources, world: prefixed })),
    ];

    expect(answers.map(({ vote }) => vote)).toEqual(['granted', 'granted']);
    expect((await acquire(node(), requestFor({ resources }))).vote).toBe('taken');
  });

  it('answers after the call has returned, once, in the order of the calls', async () => {
    const answers: string[] = [];
    const [held, request] = [requestFor({ resources: ['held'] }), requestFor()];
    // Two, for a server that does not know the script of many yet is sent it later than the rest.
    await Promise.all([held, requestFor({ resources: ['q'] })].map((one) => acquire(node(), one)));

    const last = new Promise<void>((resolve) => {
      node().acquire(request, ({ vote }) => answers.push(vote));
      node().release({ ...held, wakes: true }, ({ vote }) => answers.push(vote));
      node().inspect(request.world, 'r', ({ vote }) => {
        answers.push(vote);
        resolve();
      });
    });
    answers.push('returned');
    await last;

    expect(answers).toEqual(['returned', 'granted', 'done', 'found']);
  });
}

function fencing(node: () => LockNode, requestFor: RequestFor, now: () => number): void {
  const SKEW = FENCED.clockSkewMax * 1_000;

  it('tells its time with a grant', async () => {
    const answer = await acquire(node(), requestFor());

    const nodeTime = answer.vote === 'granted' ? answer.nodeTime : 0;
    expect(Math.abs(nodeTime / 1_000 - now())).toBeLessThan(1_000);
  });

  it('refuses a token that is not above the last one, and says which that was', async () => {
    const first = requestFor();
    await acquire(node(), first);
    await release(node(), first);

    for (const token of [first.token, first.token - 1]) {
      const answer = await acquire(node(), requestFor({ token }));
      expect(answer).toMatchObject({ vote: 'stale', isAhead: false, low: first.token });
    }
    expect((await acquire(node(), requestFor({ token: first.token + 1 }))).vote).toBe('granted');
  });

  it('refuses a token below its clock window, and tells its time', async () => {
    const token = now() * 1_000 - SKEW - 1_000_000;

    const answer = await acquire(node(), requestFor({ token: Math.floor(token) }));

    expect(answer).toMatchObject({ vote: 'stale', isAhead: false });
    const gap = answer.vote === 'stale' ? answer.nodeTime - answer.low : 0;
    // The node's time may be rounded up.
    expect(gap).toBeGreaterThanOrEqual(SKEW);
    expect(gap).toBeLessThan(SKEW + 100);
  });

  it('refuses a token above its clock window', async () => {
    const token = Math.floor(now() * 1_000 + SKEW + 1_000_000);

    const answer = await acquire(node(), requestFor({ token }));

    expect(answer).toMatchObject({ vote: 'stale', isAhead: true });
  });

  it('measures a token against the records of all its resources', async () => {
    const high = requestFor({ resources: ['b'] });
    const higher = { ...high, token: high.token + 1_000 };
    await acquire(node(), higher);
    await release(node(), higher);

    const token = higher.token - 1;
    const answer = await acquire(node(), requestFor({ resources: ['a', 'b'], token }));

    expect(answer).toMatchObject({ vote: 'stale', low: higher.token });
    expect((await acquire(node(), requestFor({ resources: ['a'], token }))).vote).toBe('granted');
  });

  it('accepts a block of tokens only where all are above the last one, and records the highest', async () => {
    const single = requestFor();
    const block = { ...requestFor(), token: single.token + TOKENS_PER_BLOCK - 1 };
    const next = { ...requestFor(), token: block.token + TOKENS_PER_BLOCK };
    await acquire(node(), single);
    await release(node(), single);

    const answers = [await acquire(node(), block)];
    for (const request of [next, { ...requestFor(), token: block.token }]) {
      answers.push(await acquire(node(), request));
      await release(node(), request);
    }

    expect(answers.map(({ vote }) => vote)).toEqual(['stale', 'granted', 'stale']);
    expect(answers).toMatchObject([{ low: single.token }, {}, { low: next.token }]);
  });

  it('answers stale to an acquisition that comes after its own release', async () => {
    const request = requestFor();

    await release(node(), request);
    const answer = await acquire(node(), request);

    expect(answer).toMatchObject({ vote: 'stale', low: request.token });
  });

  it('lowers no record by a release that comes late', async () => {
    const [late, between, last] = [requestFor(), requestFor(), requestFor()];
    await acquire(node(), last);
    await release(node(), last);

    await release(node(), late);
    const answer = await acquire(node(), between);

    expect(answer).toMatchObject({ vote: 'stale', low: last.token });
  });

  it('makes no tombstone of a token above its clock window', async () => {
    const ahead = requestFor({ token: Math.floor(now() * 1_000 + SKEW + 5_000_000) });

    await release(node(), ahead);

    expect((await acquire(node(), requestFor())).vote).toBe('granted');
  });

  it('raises the record of a key that an extension created', async () => {
    const request = requestFor();
    await extend(node(), request);
    await release(node(), request);

    const answer = await acquire(node(), requestFor({ token: request.token }));

    expect(answer).toMatchObject({ vote: 'stale', low: request.token });
  });

  it('is not asked where it is off', async () => {
    const request = requestFor({ world: UNFENCED, token: 0 });

    const answers = [
      await acquire(node(), request),
      await release(node(), request),
      await acquire(node(), request),
    ];

    expect(answers.map(({ vote }) => vote)).toEqual(['granted', 'done', 'granted']);
  });
}

function extending(
  node: () => LockNode,
  requestFor: RequestFor,
  expire: (keys: readonly string[]) => Promise<void>,
): void {
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

    const answers = [await extend(node(), request), await extend(node(), request)];

    expect(answers).toEqual([{ vote: 'revoked' }, { vote: 'granted' }]);
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

    expect(answer).toEqual({ vote: 'done', listeners: 0 });
    const next = await acquire(node(), requestFor({ resources: ['a', 'b'] }));
    expect(next.vote).toBe('granted');
  });

  it('is done where there is nothing to delete, time and again', async () => {
    const request = requestFor();

    const answers = [await release(node(), request), await release(node(), request)];

    expect(answers).toEqual([
      { vote: 'done', listeners: 0 },
      { vote: 'done', listeners: 0 },
    ]);
  });

  it("leaves another owner's key", async () => {
    const request = requestFor();
    await acquire(node(), request);

    await release(node(), requestFor());

    expect(await inspect(node(), request.world, 'r')).toMatchObject({ ownerId: request.ownerId });
  });
}

function listening(node: () => LockNode, other: () => LockNode, requestFor: RequestFor): void {
  const released: [string, string[]][] = [
    ['one lock', ['r']],
    ['several', ['q', 'r']],
  ];

  it('tells of a release that deleted keys, and how many were told', async () => {
    const request = requestFor();
    const ear = await listen(other(), worldOf(), 'r');
    await acquire(node(), request);

    const answer = await release(node(), { ...request, wakes: true });

    expect(answer).toEqual({ vote: 'done', listeners: 1 });
    await ear.woken;
    expect(ear.heard).toEqual([1]);
    ear.stop();
  });

  it('tells of each of several resources', async () => {
    const request = requestFor({ resources: ['a', 'b'] });
    const ears = [await listen(other(), worldOf(), 'a'), await listen(other(), worldOf(), 'b')];
    await acquire(node(), request);

    const answer = await release(node(), { ...request, wakes: true });

    expect(answer).toEqual({ vote: 'done', listeners: 1 });
    await Promise.all(ears.map(({ woken }) => woken));
    for (const { stop } of ears) stop();
  });

  it('tells of those among many releases at once that somebody waits for', async () => {
    const requests = ['a', 'b', 'c'].map((name) => requestFor({ resources: [name] }));
    const ear = await listen(other(), worldOf(), 'b');
    await Promise.all(requests.map((request) => acquire(node(), request)));

    const answers = await Promise.all(
      requests.map((request) => release(node(), { ...request, wakes: true })),
    );

    expect(answers.map((answer) => 'listeners' in answer && answer.listeners)).toEqual([0, 1, 0]);
    await ear.woken;
    expect(ear.heard).toEqual([1]);
    ear.stop();
  });

  it.each(released)(
    'tells nobody where the release asks for that, or deletes nothing: %s',
    async (_, resources) => {
      const request = requestFor({ resources });
      const last = requestFor({ resources: ['last'] });
      const ear = await listen(other(), worldOf(), 'r');
      const end = await listen(other(), worldOf(), 'last');
      for (const acquired of [request, last]) await acquire(node(), acquired);

      await release(node(), { ...request, wakes: false });
      await release(node(), { ...request, wakes: true });
      // What is told is heard in order: all that was told before has been heard by then.
      await release(node(), { ...last, wakes: true });
      await end.woken;

      expect(ear.heard).toEqual([]);
      for (const { stop } of [ear, end]) stop();
    },
  );

  it.each(released)(
    'does not count the process itself, which hears its own releases too: %s',
    async (_, resources) => {
      const request = requestFor({ resources });
      const own = await listen(node(), request.world, 'r');
      const others = await listen(other(), worldOf(), 'r');
      await acquire(node(), request);

      const answer = await release(node(), { ...request, wakes: true });

      expect(answer).toEqual({ vote: 'done', listeners: 1 });
      await Promise.all([own.woken, others.woken]);
      expect([...own.heard, ...others.heard]).toEqual([1, 1]);
      own.stop();
      others.stop();
    },
  );

  it.each(released)('counts nobody where the process alone listens: %s', async (_, resources) => {
    const request = requestFor({ resources });
    const own = await listen(node(), request.world, 'r');
    await acquire(node(), request);

    const answer = await release(node(), { ...request, wakes: true });

    expect(answer).toEqual({ vote: 'done', listeners: 0 });
    own.stop();
  });

  it('ends: who stops listening is neither told nor counted', async () => {
    const request = requestFor();
    const first = await listen(other(), worldOf(), 'r');
    first.stop();
    const second = await listen(other(), worldOf(), 'q');
    await acquire(node(), request);

    const answer = await release(node(), { ...request, wakes: true });

    expect(answer).toEqual({ vote: 'done', listeners: 0 });
    expect(first.heard).toEqual([]);
    second.stop();
  });

  it('goes on for those who listen when others stop listening twice', async () => {
    const request = requestFor();
    const first = await listen(other(), worldOf(), 'r');
    first.stop();
    const second = await listen(other(), worldOf(), 'r');
    await acquire(node(), request);

    first.stop();
    await release(node(), { ...request, wakes: true });
    await eventually(() => second.heard.length > 0);

    expect(first.heard).toEqual([]);
    second.stop();
  });

  it('tells nothing to who stopped before it was live', async () => {
    const told: boolean[] = [];
    const onLive = (isLive: boolean): void => void told.push(isLive);
    other().listen(worldOf(), 'r', { onLive, onWake: () => undefined })();

    const next = await listen(other(), worldOf(), 'r');

    expect(told).toEqual([]);
    next.stop();
  });

  it('keeps the listeners of two prefixes apart', async () => {
    const request = requestFor({ world: { ...requestFor().world, keyPrefix: 'p:' } });
    const ear = await listen(other(), worldOf(), 'r');
    await acquire(node(), request);

    const answer = await release(node(), { ...request, wakes: true });

    expect(answer).toEqual({ vote: 'done', listeners: 0 });
    ear.stop();
  });
}

function looking(node: () => LockNode, requestFor: RequestFor): void {
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

  it('is up and knows how far its clock is from ours', () => {
    const status = node().status();

    expect(status).toMatchObject({ name: node().name, state: 'up', quarantineRemaining: 0 });
    expect(Math.abs(status.clockOffset ?? Infinity)).toBeLessThan(1_000);
  });
}
