// The part of the contract of nodes that is about fencing tokens. Source: PROTOCOL.md section 8.
import { expect, it } from '@jest/globals';

import { TOKENS_PER_BLOCK } from '../../lib/core/fencing.js';
import type { LockNode } from '../../lib/core/lock-node.js';
import { acquire, extend, release, worldOf, type RequestFor } from '../support/node-harness.js';

export function fencing(node: () => LockNode, requestFor: RequestFor, now: () => number): void {
  const SKEW = worldOf().clockSkewMax * 1_000;

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
    const request = requestFor({ world: worldOf({ fencing: false }), token: 0 });

    const answers = [
      await acquire(node(), request),
      await release(node(), request),
      await acquire(node(), request),
    ];

    expect(answers.map(({ vote }) => vote)).toEqual(['granted', 'done', 'granted']);
  });
}
