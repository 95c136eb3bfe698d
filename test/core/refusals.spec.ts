import { describe, expect, it } from '@jest/globals';

import { LockTakenError, NoQuorumError } from '../../lib/core/errors.js';
import { refusalError } from '../../lib/core/refusals.js';
import { ensembleOf, expectInstance, setScene } from './scene.js';
import type { FailedVerdict } from '../../lib/core/attempt.js';
import type { RedlockError } from '../../lib/core/errors.js';
import type { AcquireAnswer } from '../../lib/core/lock-node.js';

const failed: AcquireAnswer = {
  vote: 'failed',
  mayHold: false,
  isMisconfiguration: false,
  message: 'down',
};
const granted: AcquireAnswer = { vote: 'granted', nodeTime: 1 };
const quarantined = (remaining: number): AcquireAnswer => ({ vote: 'quarantined', remaining });
const taken = (remaining: number, nth = 0): AcquireAnswer => {
  return { vote: 'taken', remaining, nth, ownerId: 'o' };
};

function refusal(
  verdict: FailedVerdict,
  answers: readonly (AcquireAnswer | null)[],
  clockOffsets: readonly (number | null)[] = [null, null, null],
  resources: readonly string[] = ['r'],
): RedlockError {
  const { nodes, environment } = setScene();
  const spent = { tieBreaker: null, attempts: 1, waited: 0 };
  const ensemble = ensembleOf(environment, nodes);
  return refusalError(ensemble, { resources, verdict, answers, clockOffsets, ...spent });
}

function retryAfter(answers: readonly (AcquireAnswer | null)[]): number | null {
  return expectInstance(refusal('taken', answers), LockTakenError).retryAfter;
}

describe('too few votes', () => {
  it('are no matter of clocks where the clock of one node alone is known', () => {
    expect(refusal('noQuorum', [null, null, null], [60_000, null, null]).message).toContain(
      'fewer than 2 of 3 nodes could vote',
    );
  });

  it.each<[string, readonly (AcquireAnswer | null)[], number | null]>([
    ['are enough when so many are out of quarantine', [quarantined(200), failed, granted], 200],
    [
      'wait for the one that is in quarantine longer',
      [quarantined(200), quarantined(9), failed],
      200,
    ],
    ['may be enough at any time where nodes fail', [quarantined(200), failed, failed], null],
    ['may be enough at any time where nodes are silent', [null, null, quarantined(200)], null],
    ['are no more when a lock ends that a node is taken by', [taken(7_000), failed, null], null],
    ['count those that are taken, which vote', [taken(7_000), quarantined(200), null], 200],
  ])('%s', (_name, answers, expected) => {
    const error = expectInstance(refusal('noQuorum', answers), NoQuorumError);

    expect(error.retryAfter).toBe(expected);
  });
});

describe('which of several resources is taken', () => {
  const noted = (answers: readonly (AcquireAnswer | null)[]): LockTakenError =>
    expectInstance(refusal('taken', answers, undefined, ['a', 'b', 'c']), LockTakenError);

  it('is told as the nodes said, each once', () => {
    const error = noted([taken(300, 2), taken(200, 1), taken(100, 2)]);

    expect(error.taken).toEqual(['b', 'c']);
    expect(error.message).toContain('0 ms: "b", "c" held by another owner for another 200 ms,');
  });

  it('is not guessed', () => {
    const error = noted([granted, null, taken(100, 7)]);

    expect(error.taken).toEqual([]);
    expect(error.message).toContain('0 ms: held by another owner. Nodes:');
  });

  it('is said in no message where there is but one', () => {
    const error = expectInstance(refusal('taken', [taken(1), taken(1), null]), LockTakenError);

    expect(error.taken).toEqual(['r']);
    expect(error.message).toContain('0 ms: held by another owner for another 1 ms,');
  });
});

describe('when a taken resource may be free again', () => {
  it.each<[string, readonly (AcquireAnswer | null)[], number | null]>([
    ['is when a quorum of nodes is', [taken(100), taken(300), taken(200)], 200],
    ['is told in whole ms, rounded up', [taken(100.2), taken(50), taken(200)], 101],
    ['does not wait for nodes that are free or silent', [taken(100), granted, taken(300)], 100],
    ['does not wait for a node that did not answer', [null, taken(300), taken(200)], 200],
    ['leaves out a node that failed', [failed, taken(300), taken(200)], 300],
    ['waits for the end of a quarantine', [quarantined(200), taken(300), taken(100)], 200],
    ['leaves out a holder without a ttl', [taken(-1), taken(300), taken(200)], 300],
    ['is unknown when too few nodes know it', [taken(-1), taken(-1), taken(200)], null],
    ['is unknown when a quorum is free already', [granted, granted, taken(200)], null],
  ])('%s', (_name, answers, expected) => {
    expect(retryAfter(answers)).toBe(expected);
  });
});
