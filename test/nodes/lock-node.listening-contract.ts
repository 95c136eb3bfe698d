// The part of the contract of nodes that is about who hears of a release. Source: PROTOCOL.md section 10.
import { expect, it } from '@jest/globals';

import { OVERDUE, type LockNode, type Told } from '../../lib/core/lock-node.js';
import { eventually } from '../support/eventually.js';
import { acquire, listen, release, worldOf, type RequestFor } from '../support/node-harness.js';

export function listening(
  node: () => LockNode,
  other: () => LockNode,
  requestFor: RequestFor,
): void {
  const released: [string, string[]][] = [
    ['one lock', ['r']],
    ['several', ['q', 'r']],
  ];

  it('tells of a release that deleted keys, and how many were told', async () => {
    const request = requestFor();
    const ear = await listen(other(), worldOf(), 'r');
    await acquire(node(), request);

    const answer = await release(node(), { ...request, wakes: true });

    expect(answer).toEqual({ vote: 'done', listeners: 1, overdue: 0 });
    await ear.woken;
    expect(ear.heard).toEqual([1]);
    ear.stop();
  });

  it.each(released)('tells how many of those who listen are overdue: %s', async (_, resources) => {
    const request = requestFor({ resources });
    const told: Told[] = [];
    const stop = other().listen(worldOf(), 'r', {
      onLive: () => undefined,
      onWake: (who) => told.push(who),
    });
    const claim = await listen(other(), worldOf(), `${OVERDUE}r`);
    await acquire(node(), request);

    const answer = await release(node(), { ...request, wakes: true });
    await eventually(() => told.length > 0);
    claim.stop();
    stop();

    expect(answer).toEqual({ vote: 'done', listeners: 1, overdue: 1 });
    expect(told).toEqual([{ listeners: 1, overdue: 1 }]);
    expect(claim.heard).toEqual([]);
  });

  it('says who was told of the one of several resources where most are overdue', async () => {
    const request = requestFor({ resources: ['a', 'b', 'c'] });
    const ears = await Promise.all(
      ['a', 'b', 'c', `${OVERDUE}b`].map((name) => listen(other(), worldOf(), name)),
    );
    await acquire(node(), request);

    const answer = await release(node(), { ...request, wakes: true });
    for (const { stop } of ears) stop();

    expect(answer).toEqual({ vote: 'done', listeners: 1, overdue: 1 });
  });

  it('says that it hears releases after it has returned, and not to who has stopped by then', async () => {
    const ear = await listen(other(), worldOf(), 'r');
    const told: string[] = [];
    const begin = (name: string): (() => void) =>
      other().listen(worldOf(), 'r', {
        onLive: (isLive) => told.push(`${name}: ${isLive}`),
        onWake: () => undefined,
      });

    begin('stopped')();
    const stop = begin('listening');
    const toldAtOnce = [...told];
    await new Promise(setImmediate);

    expect(toldAtOnce).toEqual([]);
    expect(told).toEqual(['listening: true']);
    for (const end of [ear.stop, stop]) end();
  });

  it('tells of each of several resources', async () => {
    const request = requestFor({ resources: ['a', 'b'] });
    const ears = [await listen(other(), worldOf(), 'a'), await listen(other(), worldOf(), 'b')];
    await acquire(node(), request);

    const answer = await release(node(), { ...request, wakes: true });

    expect(answer).toEqual({ vote: 'done', listeners: 1, overdue: 0 });
    await Promise.all(ears.map(({ woken }) => woken));
    for (const { stop } of ears) stop();
  });

  it('tells of those among many releases at once that somebody waits for', async () => {
    const requests = ['a', 'b', 'c', 'd'].map((name) => requestFor({ resources: [name] }));
    const ears = [await listen(other(), worldOf(), 'b'), await listen(other(), worldOf(), 'd')];
    await Promise.all(requests.map((request) => acquire(node(), request)));

    // A server does the first two together, and the last two.
    const answers = await Promise.all(
      requests.map((request, index) => {
        const releasing = release(node(), { ...request, wakes: true });
        if (index === 1) void release(node(), requestFor({ resources: ['nobody', 'has'] }));
        return releasing;
      }),
    );

    expect(answers.map((answer) => 'listeners' in answer && answer.listeners)).toEqual([
      0, 1, 0, 1,
    ]);
    await Promise.all(ears.map(({ woken }) => woken));
    expect(ears.map(({ heard }) => heard)).toEqual([[1], [1]]);
    for (const { stop } of ears) stop();
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

  it('tells nobody of what the same process locks again at once, but of what it does not', async () => {
    const first = requestFor({ resources: ['a', 'b'] });
    const second = requestFor({ resources: ['a', 'c'] });
    const [again, free] = [
      await listen(other(), worldOf(), 'a'),
      await listen(other(), worldOf(), 'b'),
    ];
    await acquire(node(), first);

    const releasing = release(node(), { ...first, wakes: true });
    const acquired = await Promise.resolve().then(() => acquire(node(), second));
    const answer = await releasing;
    await free.woken;

    expect(acquired.vote).toBe('granted');
    expect(answer).toEqual({ vote: 'done', listeners: 1, overdue: 0 });
    expect([again.heard, free.heard]).toEqual([[], [1]]);
    for (const { stop } of [again, free]) stop();
  });

  it('tells of what the same process could not lock again', async () => {
    const [first, second] = [requestFor(), requestFor({ resources: ['r', 'taken'] })];
    const ear = await listen(other(), worldOf(), 'r');
    await acquire(node(), requestFor({ resources: ['taken'] }));
    await acquire(node(), first);

    const releasing = release(node(), { ...first, wakes: true });
    const refused = await acquire(node(), second);
    const answer = await releasing;
    await ear.woken;

    expect(refused.vote).toBe('taken');
    expect(answer).toEqual({ vote: 'done', listeners: 1, overdue: 0 });
    ear.stop();
  });

  it.each(released)(
    'does not count the process itself, which hears its own releases too: %s',
    async (_, resources) => {
      const request = requestFor({ resources });
      const own = await listen(node(), request.world, 'r');
      const others = await listen(other(), worldOf(), 'r');
      await acquire(node(), request);

      const answer = await release(node(), { ...request, wakes: true });

      expect(answer).toEqual({ vote: 'done', listeners: 1, overdue: 0 });
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

    expect(answer).toEqual({ vote: 'done', listeners: 0, overdue: 0 });
    own.stop();
  });

  it('ends: who stops listening is neither told nor counted', async () => {
    const request = requestFor();
    const first = await listen(other(), worldOf(), 'r');
    first.stop();
    const second = await listen(other(), worldOf(), 'q');
    await acquire(node(), request);

    const answer = await release(node(), { ...request, wakes: true });

    expect(answer).toEqual({ vote: 'done', listeners: 0, overdue: 0 });
    expect(first.heard).toEqual([]);
    second.stop();
  });

  it('goes on for those who listen when one of them stops', async () => {
    const request = requestFor();
    const world = worldOf();
    const [leaving, staying] = [
      await listen(other(), world, 'r'),
      await listen(other(), world, 'r'),
    ];
    await acquire(node(), request);

    leaving.stop();
    await release(node(), { ...request, wakes: true });
    await staying.woken;

    expect(leaving.heard).toEqual([]);
    staying.stop();
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

    expect(answer).toEqual({ vote: 'done', listeners: 0, overdue: 0 });
    ear.stop();
  });
}
