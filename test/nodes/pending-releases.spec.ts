import { describe, expect, it } from '@jest/globals';

import { systemEnvironment } from '../../lib/core/environment.js';
import { PendingReleases } from '../../lib/nodes/pending-releases.js';
import type { OwnerRequest, ReleaseAnswer, ReleaseRequest } from '../../lib/core/lock-node.js';
import { growth, LINEAR } from '../support/growth.js';
import { requestFor as requestOf } from '../support/node-harness.js';

function requestFor(overrides: Partial<OwnerRequest> = {}): ReleaseRequest {
  return { ...requestOf(overrides), wakes: true };
}

function start(): { clock: { now: number }; releases: PendingReleases<string> } {
  const clock = { now: 0 };
  const environment = { ...systemEnvironment, now: () => clock.now };
  return { clock, releases: new PendingReleases(environment) };
}

describe('releases that a node has not confirmed', () => {
  it('are due on the next connection, also when they were written on the last', () => {
    const { releases } = start();
    const written = releases.add(requestFor(), 'first');
    const unsent = releases.add(requestFor(), null);

    expect(releases.dueOn('first')).toEqual([unsent]);
    expect(releases.dueOn('second')).toEqual([written, unsent]);
  });

  it('are gone once confirmed', () => {
    const { releases } = start();
    const release = releases.add(requestFor(), 'first');

    releases.confirm(release);

    expect(releases.has(release.request.ownerId)).toBe(false);
    expect(releases.dueOn('second')).toEqual([]);
  });

  it('stay as they are when an earlier one of the same owner is confirmed', () => {
    const { releases } = start();
    const request = requestFor();
    const [first, second] = [releases.add(request, 'first'), releases.add(request, 'first')];

    releases.confirm(first);

    expect(releases.dueOn('second')).toEqual([second]);
  });

  it('are due one by one while they are neither noted anew, nor confirmed, nor over', () => {
    const { clock, releases } = start();
    const request = requestFor();
    const unsent = releases.add(requestFor({ ttl: 1_000 }), null);
    const [earlier, confirmed] = [releases.add(request, null), releases.add(requestFor(), null)];
    releases.add(request, null);
    releases.confirm(confirmed);

    const due = [unsent, earlier, confirmed].map((release) => releases.isDue(release));
    clock.now = 1_101;

    expect(due).toEqual([true, false, false]);
    expect(releases.isDue(unsent)).toBe(false);
  });

  it('are forgotten after 1.1 of their ttl', () => {
    const { clock, releases } = start();
    const release = releases.add(requestFor({ ttl: 1_000 }), null);

    clock.now = 1_099;
    const before = releases.dueOn('next');
    clock.now = 1_101;
    const after = releases.dueOn('next');

    expect([before, after]).toEqual([[release], []]);
  });

  it('are bounded while they cannot be sent, and the first ones stay', () => {
    const { releases } = start();
    const first = releases.add(requestFor(), null);
    for (let i = 0; i < 10_000; i += 1) releases.add(requestFor(), null);

    const due = releases.dueOn('next');

    expect(due).toHaveLength(4_096);
    expect(due[0]).toBe(first);
  });

  it('are all kept once they were written, and leave no room for others', () => {
    const { releases } = start();
    const written = Array.from({ length: 5_000 }, () => releases.add(requestFor(), 'first'));
    releases.add(requestFor(), null);

    const due = releases.dueOn('next');

    expect(due.length).toBe(written.length);
    expect(due.at(-1)).toBe(written.at(-1));
  });

  it('are bounded while the node refuses them, and the first ones stay', () => {
    const { releases } = start();

    const kept = Array.from({ length: 40_000 }, () =>
      releases.keepRefused(releases.add(requestFor(), 'first')),
    );

    expect(kept.indexOf(false)).toBe(32_768);
    expect(kept.lastIndexOf(true)).toBe(32_767);
    expect(releases.dueOn('next')).toHaveLength(32_768);
  });

  it('make room when they expire', () => {
    const { clock, releases } = start();
    for (let i = 0; i < 5_000; i += 1) releases.add(requestFor({ ttl: 100 }), null);
    clock.now = 200;

    for (let i = 0; i < 3_000; i += 1) releases.add(requestFor(), null);

    expect(releases.dueOn('next')).toHaveLength(3_000);
  });

  it('make room when they expire behind one that lives longer', () => {
    const { clock, releases } = start();
    const longest = releases.add(requestFor({ ttl: 86_400_000 }), null);
    for (let i = 0; i < 5_000; i += 1) releases.add(requestFor({ ttl: 100 }), null);
    clock.now = 200;

    const late = releases.add(requestFor(), null);

    expect(releases.dueOn('next')).toEqual([longest, late]);
  });

  it('are forgotten when they expire, in any order, though none is noted any more', () => {
    const { clock, releases } = start();
    const noted = [1_000, 100, 300, 110].map((ttl) => releases.add(requestFor({ ttl }), 'first'));
    const ttls = (): number[] =>
      noted.flatMap(({ request }) => (releases.has(request.ownerId) ? [request.ttl] : []));

    const kept = [105, 115, 125, 335, 1_105].map((now) => {
      clock.now = now;
      releases.forgetExpired();
      return ttls();
    });

    expect(kept).toEqual([[1_000, 100, 300, 110], [1_000, 300, 110], [1_000, 300], [1_000], []]);
  });

  it('cost the same each, however many there are, also after some have expired', async () => {
    const prepare = (count: number) => {
      const { clock, releases } = start();
      const requests = Array.from({ length: count }, () => requestFor());
      releases.add(requestFor({ ttl: 100 }), 'first');
      clock.now = 200;
      return () => {
        for (const request of requests) releases.add(request, 'first');
        expect(releases.has(requests[0]?.ownerId ?? '')).toBe(true);
      };
    };

    expect(await growth(prepare, 500)).toBeLessThan(LINEAR);
  });
});

describe('a release that is asked for twice', () => {
  it('is one while the first is on its way on the same connection, and answers both', () => {
    const { releases } = start();
    const answers: string[] = [];
    const request = requestFor();
    const onAnswer = ({ vote }: ReleaseAnswer): void => void answers.push(`one ${vote}`);
    const release = releases.add(request, 'first', onAnswer);

    const isJoined = releases.join(request.ownerId, 'first', ({ vote }) =>
      answers.push(`two ${vote}`),
    );
    release.onAnswer?.({ vote: 'done', listeners: 0, overdue: 0 });

    expect(isJoined).toBe(true);
    expect(answers).toEqual(['one done', 'two done']);
  });

  it('comes after those that were asked for in between', () => {
    const { releases } = start();
    const request = requestFor();
    releases.add(request, 'first');
    const between = releases.add(requestFor(), 'first');
    const second = releases.add(request, 'first');

    expect(releases.dueOn('next')).toEqual([between, second]);
  });

  it('is two once the first is confirmed, refused, answered, or on another connection', () => {
    const { releases } = start();
    const ignore = (): void => undefined;
    const [confirmed, refused] = [requestFor(), requestFor()];
    const [answered, elsewhere] = [requestFor(), requestFor()];
    releases.confirm(releases.add(confirmed, 'first', ignore));
    releases.add(refused, 'first', ignore).sentOn = null;
    releases.add(answered, 'first', ignore).onAnswer = null;
    releases.add(elsewhere, 'earlier', ignore);

    const joined = [confirmed, refused, answered, elsewhere].map(({ ownerId }) =>
      releases.join(ownerId, 'first', ignore),
    );

    expect(joined).toEqual([false, false, false, false]);
  });
});
