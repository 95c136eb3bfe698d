// Callers who take their locks in one order do not wait for each other, nor for those who only
// queue, as long as they ask for one resource at a time inside their locks.
import { expect, it } from '@jest/globals';

import { LockTakenError } from '../../lib/core/errors.js';
import { NestedPlay } from './nested-play.js';
import { findingsOf } from './play-checks.js';
import { setScene } from './scene.js';

const PLAYS = 60;

it('callers who lock in one order all get what they ask for inside their locks, and soon', async () => {
  expect(await findingsOf(PLAYS, (seed) => new NestedPlay(seed))).toEqual([]);
}, 200_000);

it('callers who ask for several inside their locks may stop each other until a wait is over', async () => {
  const { environment, redlock, until } = setScene();
  const startedAt = environment.now();
  const ends: [string, number][] = [];
  const nest = (outer: string, inner: string | readonly string[], wait: number): Promise<unknown> =>
    redlock.using(outer, { ttl: 10_000 }, () => {
      const nested = redlock.using(inner, { wait }, () => undefined, [outer]);
      const end = (): void => void ends.push([outer, environment.now() - startedAt]);
      return nested.finally(end);
    });

  const callers = [nest('a', ['b', 'd'], 500), nest('b', 'c', 9_000), nest('c', 'd', 9_000)];
  const [first, ...others] = await until(Promise.allSettled(callers));

  expect(first).toMatchObject({ status: 'rejected', reason: expect.any(LockTakenError) });
  expect(others).toMatchObject([{ status: 'fulfilled' }, { status: 'fulfilled' }]);
  expect(ends.map(([outer]) => outer)).toEqual(['a', 'c', 'b']);
  expect(ends[0]?.[1]).toBeGreaterThanOrEqual(500);
});
