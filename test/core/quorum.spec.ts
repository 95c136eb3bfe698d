import { describe, expect, it } from '@jest/globals';

import { judge, leaseUntil, majorityOf, medianOf, validUntilOf } from '../../lib/core/quorum.js';
import type { Ballot, Verdict } from '../../lib/core/quorum.js';

type Kind =
  'granted' | 'taken' | 'taken by another' | 'stale' | 'quarantined' | 'failed' | 'misconfigured';

const kinds: readonly Kind[] = [
  'granted',
  'taken',
  'taken by another',
  'stale',
  'quarantined',
  'failed',
  'misconfigured',
];
const clusterSizes = [1, 2, 3, 4, 5];

function ballotOf(votes: readonly Kind[]): Ballot {
  const count = (kind: Kind): number => votes.filter((vote) => vote === kind).length;
  return {
    granted: count('granted'),
    taken: count('taken') + count('taken by another'),
    takenByOne: Math.max(count('taken'), count('taken by another')),
    stale: count('stale'),
    quarantined: count('quarantined'),
    failed: count('failed') + count('misconfigured'),
    misconfigured: count('misconfigured'),
  };
}

/** Every sequence of `length` votes: each combination in each order. */
function* sequencesOf(length: number): Generator<readonly Kind[]> {
  if (length === 0) {
    yield [];
    return;
  }
  for (const rest of sequencesOf(length - 1)) {
    for (const kind of kinds) yield [...rest, kind];
  }
}

/** Every smallest majority of `nodes`, each of which is named by a letter. */
function majoritiesOf(nodes: string): string[] {
  const sets = Array.from(nodes).reduce(
    (known, node) => [...known, ...known.map((set) => set + node)],
    [''],
  );
  return sets.filter((set) => set.length === majorityOf(nodes.length));
}

/** The rule of the Redlock text and PROTOCOL.md section 4, told in another way than the code. */
function expectedVerdict(votes: readonly Kind[], nodeCount: number): Verdict {
  const tally = ballotOf(votes);
  const silent = nodeCount - votes.length;
  const isMajority = (count: number): boolean => 2 * count > nodeCount;
  if (isMajority(tally.granted)) return 'granted';
  if (isMajority(tally.granted + silent)) return 'open';
  if (!isMajority(nodeCount - tally.misconfigured)) return 'misconfigured';
  if (!isMajority(tally.granted + tally.stale + tally.taken + silent)) return 'noQuorum';
  if (isMajority(tally.granted + tally.stale + silent)) return 'stale';
  return isMajority(tally.takenByOne) || silent === 0 ? 'taken' : 'open';
}

/** The verdict that stands when the votes arrive one by one, and how many were needed. */
function settle(votes: readonly Kind[], nodeCount: number): { verdict: Verdict; after: number } {
  for (let after = 0; after <= votes.length; after += 1) {
    const verdict = judge(ballotOf(votes.slice(0, after)), nodeCount);
    if (verdict !== 'open') return { verdict, after };
  }
  return { verdict: 'open', after: votes.length };
}

describe('the majority', () => {
  it.each([
    [1, 1],
    [2, 2],
    [3, 2],
    [4, 3],
    [5, 3],
  ])('of %i nodes is %i', (nodeCount, majority) => {
    expect(majorityOf(nodeCount)).toBe(majority);
  });

  it.each(clusterSizes)('shares a node with any other majority of %i nodes', (nodeCount) => {
    expect(2 * majorityOf(nodeCount)).toBeGreaterThan(nodeCount);
    expect(2 * (majorityOf(nodeCount) - 1)).toBeLessThanOrEqual(nodeCount);
  });

  // docs/OPERATIONS.md: what a deployment bears while old and new replicas run.
  it.each([
    ['abc', 'abcd', true],
    ['abcd', 'abcde', true],
    ['abcd', 'abd', true],
    ['abc', 'abcde', false],
    ['abc', 'abd', false],
  ])('of the nodes %s shares a node with any of %s: %s', (before, after, expected) => {
    const isShared = majoritiesOf(before).every((one) =>
      majoritiesOf(after).every((other) => Array.from(one).some((node) => other.includes(node))),
    );

    expect(isShared).toBe(expected);
  });
});

describe.each(clusterSizes)('a round of %i nodes', (nodeCount) => {
  const sequences = [...sequencesOf(nodeCount)];

  it('settles for every combination and order of votes', () => {
    const open = sequences.filter((votes) => settle(votes, nodeCount).verdict === 'open');

    expect(open).toEqual([]);
  });

  it('is won exactly when a majority of all nodes granted it, in whatever order', () => {
    const misjudged = sequences.filter((votes) => {
      const isWon = settle(votes, nodeCount).verdict === 'granted';
      return isWon !== 2 * ballotOf(votes).granted > nodeCount;
    });

    expect(misjudged).toEqual([]);
  });

  it('is decided by the first vote after which no other could change the outcome', () => {
    const misjudged = sequences.filter((votes) => {
      const { verdict, after } = settle(votes, nodeCount);
      const isOpenBefore =
        after === 0 || expectedVerdict(votes.slice(0, after - 1), nodeCount) === 'open';
      return !isOpenBefore || expectedVerdict(votes.slice(0, after), nodeCount) !== verdict;
    });

    expect(misjudged).toEqual([]);
  });

  it('names the cause of its failure from all votes, whatever their order', () => {
    const misjudged = sequences.filter((votes) => {
      const shuffled = [...votes].reverse();
      const verdict = judge(ballotOf(votes), nodeCount);
      return (
        verdict !== expectedVerdict(votes, nodeCount) ||
        verdict !== judge(ballotOf(shuffled), nodeCount)
      );
    });

    expect(misjudged).toEqual([]);
  });
});

describe('a tied vote', () => {
  it.each([2, 4])('of %i nodes is lost for both contenders', (nodeCount) => {
    const half = nodeCount / 2;
    const votes = [
      ...Array.from({ length: half }, () => 'granted' as const),
      ...Array.from({ length: half }, () => 'taken' as const),
    ];

    expect(judge(ballotOf(votes), nodeCount)).toBe('taken');
  });
});

describe('the verdict', () => {
  it.each<[readonly Kind[], number, Verdict]>([
    [['stale', 'granted'], 3, 'open'],
    [['stale', 'granted', 'stale'], 3, 'stale'],
    [['stale', 'taken'], 3, 'stale'],
    [['stale', 'taken', 'taken'], 3, 'taken'],
    [['failed', 'taken'], 3, 'open'],
    [['failed', 'taken', 'granted'], 3, 'taken'],
    [['failed', 'taken', 'failed'], 3, 'noQuorum'],
    [['taken'], 2, 'open'],
    [['taken', 'taken'], 2, 'taken'],
    [['taken', 'taken'], 3, 'taken'],
    [['taken', 'taken by another'], 3, 'open'],
    [['taken', 'taken by another', 'granted'], 3, 'taken'],
    [['failed', 'failed'], 3, 'noQuorum'],
    [['quarantined', 'quarantined'], 3, 'noQuorum'],
    [['quarantined', 'failed', 'taken'], 3, 'noQuorum'],
    [['misconfigured', 'failed'], 3, 'noQuorum'],
    [['misconfigured', 'misconfigured'], 3, 'misconfigured'],
    [['misconfigured'], 1, 'misconfigured'],
    [['misconfigured', 'taken', 'taken'], 3, 'taken'],
  ])('of %j from %i nodes is %s', (votes, nodeCount, verdict) => {
    expect(judge(ballotOf(votes), nodeCount)).toBe(verdict);
  });
});

describe('a lease', () => {
  it('begins when the round began and ends before the key, by drift and 2 ms', () => {
    expect(leaseUntil(1_000, 10_000, 0.01)).toBe(1_000 + 9_900 - 2);
  });
});

describe('the median', () => {
  it.each<[values: number[], median: number]>([
    [[7], 7],
    [[7, -2], -2],
    [[7, -2, 3], 3],
    [[7, 9, 7, 7], 7],
    [[-2, 9, 3, 7], 3],
    [[5, -2, 9, 3, 7], 5],
  ])('of %j is %d', (values, expected) => {
    expect(medianOf(values)).toBe(expected);
  });
});

describe('the validity of a lock', () => {
  it.each(clusterSizes)('is the last lease that a quorum of %i nodes outlives', (nodeCount) => {
    const leases = Array.from({ length: nodeCount }, (_, node) => 100 * (nodeCount - node));

    const validUntil = validUntilOf(leases, majorityOf(nodeCount));

    const outliving = leases.filter((until) => until >= validUntil);
    expect(outliving).toHaveLength(majorityOf(nodeCount));
  });

  it('does not depend on the order of the nodes, nor change the leases', () => {
    const leases = [300, -Infinity, 100, 200, -Infinity];

    const validUntil = validUntilOf(leases, 3);

    expect(validUntil).toBe(100);
    expect(leases).toEqual([300, -Infinity, 100, 200, -Infinity]);
  });

  it('is in the past for ever with fewer leases than a quorum', () => {
    expect(validUntilOf([300, -Infinity, -Infinity], 2)).toBe(-Infinity);
    expect(validUntilOf([300], 2)).toBe(-Infinity);
  });

  it('counts equal leases once for each node', () => {
    expect(validUntilOf([200, 200, 100], 2)).toBe(200);
  });
});
