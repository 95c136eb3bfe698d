import { describe, expect, it } from '@jest/globals';

import { tieBreakerAfter } from '../../lib/core/attempt.js';
import { Holding } from '../../lib/core/holding.js';
import {
  ownerId,
  ttl,
  timeout,
  behaviours,
  fewBehaviours,
  prepare,
  verdictOf,
  releases,
  arrange,
  casts,
  play,
  type Trial,
} from './attempt-scene.js';

describe('a tied vote, and every other', () => {
  it.each([1, 2, 3, 4, 5])(
    'of %i nodes settles, is won by a majority alone, and else leaves no key',
    async (nodeCount) => {
      const wrong: string[] = [];
      for (const cast of casts(nodeCount, nodeCount < 5 ? behaviours : fewBehaviours))
        wrong.push(...(await play(cast, [30, 10, 40, 0, 20])));

      expect(wrong).toEqual([]);
    },
  );
});

describe('an attempt with a tie-breaker', () => {
  const counts = (trial: Trial): number[] => trial.nodes.map((node) => node.count('acquire'));

  it('asks that node alone, and gives up when it is taken', async () => {
    const trial = prepare(3);
    trial.nodes[1]?.occupy('r', 60_000);

    trial.attempt.start(timeout, 1);
    await trial.environment.settle();

    expect(trial.verdict()).toBe('taken');
    expect(counts(trial)).toEqual([0, 1, 0]);
    expect(releases(trial)).toEqual([0, 1, 0]);
    expect(trial.environment.pendingTimers).toBe(0);
  });

  it('asks the others when that node has granted, and is won by a quorum', async () => {
    const trial = prepare(3);

    trial.attempt.start(timeout, 1);
    const countsAtFirst = counts(trial);
    await trial.environment.settle();

    expect(countsAtFirst).toEqual([0, 1, 0]);
    expect(trial.verdict()).toBe('granted');
    expect(await trial.owners()).toEqual([ownerId, ownerId, ownerId]);
  });

  it.each(['is down', 'is quarantined', 'is stale'] as const)(
    'asks the others when that node %s: it breaks no tie',
    async (behaviour) => {
      const trial = prepare(3);
      const [first] = trial.nodes;
      if (first !== undefined) arrange(trial, first, behaviour);

      trial.attempt.start(timeout, 0);
      await trial.environment.settle();

      expect(counts(trial)).toEqual([1, 1, 1]);
      expect(trial.verdict()).toBe('granted');
    },
  );

  it('ends at its timeout when that node is silent, and is undone there when it speaks', async () => {
    const trial = prepare(3);
    trial.nodes[0]?.hang();

    trial.attempt.start(timeout, 0);
    await trial.environment.advance(timeout);
    const result = trial.result();
    trial.nodes[0]?.heal();
    await trial.environment.settle();

    expect(verdictOf(result)).toBe('noQuorum');
    expect(counts(trial)).toEqual([1, 0, 0]);
    expect(await trial.owners()).toEqual([null, null, null]);
  });

  it('ends as soon as that node has made a quorum impossible', async () => {
    const trial = prepare(2);
    trial.nodes[0]?.refuse('acquire');
    trial.nodes[1]?.hang();

    trial.attempt.start(timeout, 0);
    await trial.environment.settle();

    expect(trial.verdict()).toBe('noQuorum');
  });

  it('counts the validity from before it asked that node', async () => {
    const trial = prepare(3);
    for (const node of trial.nodes) node.delay({ request: 50, answer: 50 });

    trial.attempt.start(timeout, 0);
    await trial.environment.advance(250);

    const result = trial.result();
    const remaining = result instanceof Holding ? result.remaining() : 0;
    expect(remaining).toBeCloseTo(ttl * 0.99 - 2 - 250, 6);
  });
});

describe('the tie-breaker of the next attempt', () => {
  it.each([
    ['the first node that is live', -1, 1],
    ['the next live node after the one that has decided', 1, 2],
    ['the first one again after the last', 2, 1],
  ])('is %s', (_, decider, tieBreaker) => {
    const granted = { vote: 'granted', nodeTime: 0 } as const;
    const taken = { vote: 'taken', remaining: 1, nth: 1, ownerId: 'another' } as const;
    const split = { verdict: 'taken', answers: [null, granted, taken], tieBreaker: null } as const;

    expect(tieBreakerAfter(split, decider)).toBe(tieBreaker);
  });
});
