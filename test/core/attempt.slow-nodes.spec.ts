// Nodes that are slower than a quorum of the others, where that quorum leaves the vote open.
import { describe, expect, it } from '@jest/globals';

import { isPatient } from '../../lib/core/attempt.js';
import { arrange, ownerId, prepare, timeout, type Behaviour, type Trial } from './attempt-scene.js';

/** Nodes that behave so, each with its delay. */
function cast(behaviours: readonly Behaviour[], delays: readonly number[]): Trial {
  const trial = prepare(behaviours.length);
  trial.nodes.forEach((node, index) => {
    arrange(trial, node, behaviours[index] ?? 'grants');
    node.delay({ answer: delays[index] ?? 0 });
  });
  return trial;
}

const split: readonly Behaviour[] = ['grants', 'is taken', 'grants'];

describe('an attempt after the first, whose vote a quorum of nodes leaves open', () => {
  it.each([
    ['as long again', [3, 10, 100], 20],
    ['2 ms at least', [0, 0, 100], 2],
  ])('gives the other nodes %s, and is undone on all', async (_, delays, lag) => {
    const trial = cast(split, delays);

    trial.attempt.isPatient = false;
    trial.attempt.start(timeout);
    await trial.environment.advance(lag - 1);
    const before = trial.verdict();
    await trial.environment.advance(1);
    const after = trial.verdict();
    await trial.environment.advance(200);

    expect([before, after]).toEqual(['none yet', 'taken']);
    expect(await trial.owners()).not.toContain(ownerId);
    expect(trial.environment.pendingTimers).toBe(0);
  });

  it('is won when they grant it in that time', async () => {
    const trial = cast(split, [3, 10, 19]);

    trial.attempt.isPatient = false;
    trial.attempt.start(timeout);
    await trial.environment.advance(19);

    expect(trial.verdict()).toBe('granted');
    expect(trial.environment.pendingTimers).toBe(0);
  });

  it('ends so too where several others have it, and none a quorum that is known', async () => {
    const trial = cast(['is taken', 'is taken', 'is taken'], [0, 0, 100]);
    trial.nodes[1]?.vacate('r');
    trial.nodes[1]?.occupy('r', 60_000, 'one more client');

    trial.attempt.isPatient = false;
    trial.attempt.start(timeout);
    await trial.environment.advance(2);

    expect(trial.verdict()).toBe('taken');
  });
});

describe('slower nodes have their full time', () => {
  it.each<[string, readonly Behaviour[], readonly number[], number]>([
    ['in the first attempt, or one that may be the last', split, [0, 0, 100], 1],
    ['in each eighth after it', split, [0, 0, 100], 17],
    ['where too few have voted', ['grants', 'is taken', 'grants'], [0, 90, 100], 2],
    ['where a faster one is down', ['is down', 'is taken', 'is taken'], [0, 0, 100], 2],
    ['where nobody has it', ['grants', 'is down', 'grants'], [0, 0, 100], 2],
  ])('%s', async (_, behaviours, delays, nth) => {
    const trial = cast(behaviours, delays);

    trial.attempt.isPatient = isPatient(nth);
    trial.attempt.start(timeout);
    await trial.environment.advance(99);
    const before = trial.verdict();
    await trial.environment.advance(1);

    expect(before).toBe('none yet');
    expect(trial.verdict()).not.toBe('none yet');
  });
});
