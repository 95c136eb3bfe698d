// The part of the contract of nodes that is about acquisitions. Source: PROTOCOL.md section 4.
import { expect, it } from '@jest/globals';

import type { AcquireAnswer, LockNode } from '../../lib/core/lock-node.js';
import { acquire, inspect, type Expire, type RequestFor } from '../support/node-harness.js';

export function acquiring(node: () => LockNode, requestFor: RequestFor, expire: Expire): void {
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

  it('takes the rest for an owner who has some of several resources, and gives all the ttl', async () => {
    const request = requestFor({ resources: ['a'], ttl: 1_000 });
    await acquire(node(), request);

    const token = request.token + 1;
    const all = { ...request, resources: ['a', 'b'], token, ttl: 20_000 };
    const answer = await acquire(node(), all);

    expect(answer.vote).toBe('granted');
    const found = await inspect(node(), request.world, 'a');
    expect(found.vote === 'found' && found.remaining).toBeGreaterThan(19_000);
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

  it('grants no lock of the same owner that has expired, unless it is stored anew', async () => {
    const request = requestFor();
    await acquire(node(), request);
    await expire(['r']);

    const { vote } = await acquire(node(), request);

    // With fencing, its token has been used.
    expect(vote).toBe(request.world.fencing ? 'stale' : 'granted');
    const ownerId = vote === 'granted' ? request.ownerId : null;
    expect(await inspect(node(), request.world, 'r')).toMatchObject({ ownerId });
  });
}
