import { describe, expect, it, jest } from '@jest/globals';

import { Attempt } from '../../lib/core/attempt.js';
import { TokenSource } from '../../lib/core/fencing.js';
import { Holding } from '../../lib/core/holding.js';
import { silentObserver } from '../../lib/core/observer.js';
import { resolveOptions } from '../../lib/core/options.js';
import { majorityOf } from '../../lib/core/quorum.js';
import { TestNode } from '../support/test-node.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import type { AttemptResult, FailedAttempt } from '../../lib/core/attempt.js';
import type { Ensemble } from '../../lib/core/ensemble.js';
import type { OwnerRequest } from '../../lib/core/lock-node.js';

const ownerId = 'this attempt';
const ttl = 10_000;
const timeout = 500;

type Behaviour =
  'grants' | 'is taken' | 'is stale' | 'is quarantined' | 'is down' | 'loses the answer';

const behaviours: readonly Behaviour[] = [
  'grants',
  'is taken',
  'is stale',
  'is quarantined',
  'is down',
  'loses the answer',
];

/** One of each kind that an attempt treats alike: quorum.spec.ts tries all votes of 5 nodes. */
const fewBehaviours: readonly Behaviour[] = [
  'grants',
  'is taken',
  'is quarantined',
  'loses the answer',
];

type Verdict = 'granted' | FailedAttempt['verdict'] | 'none yet';

interface Trial {
  readonly environment: SimulatedEnvironment;
  readonly nodes: readonly TestNode[];
  readonly attempt: Attempt;
  readonly onSettled: jest.Mock<(result: AttemptResult) => void>;
  result(): AttemptResult | undefined;
  verdict(): Verdict;
  owners(): Promise<(string | null)[]>;
}

function prepare(nodeCount: number): Trial {
  const environment = new SimulatedEnvironment();
  const nodes = Array.from(
    { length: nodeCount },
    (_, index) => new TestNode(environment, `node-${index}`),
  );
  const options = resolveOptions({}, nodeCount);
  const ensemble: Ensemble = {
    nodes,
    quorum: majorityOf(nodeCount),
    options,
    environment,
    observer: silentObserver,
  };
  const tokens = new TokenSource(ensemble);
  const request = {
    world: options.world,
    resources: ['r'],
    ownerId,
    token: tokens.propose(0, false),
    ttl,
  };
  const onSettled = jest.fn<(result: AttemptResult) => void>();
  const result = (): AttemptResult | undefined => onSettled.mock.calls[0]?.[0];
  return {
    environment,
    nodes,
    attempt: new Attempt(ensemble, tokens, request, onSettled),
    onSettled,
    result,
    verdict: () => verdictOf(result()),
    owners: () => Promise.all(nodes.map((node) => node.ownerOf('r'))),
  };
}

function verdictOf(result: AttemptResult | undefined): Verdict {
  if (result instanceof Holding) return 'granted';
  return result?.verdict ?? 'none yet';
}

function releases(trial: Trial): number[] {
  return trial.nodes.map((node) => node.count('release'));
}

function arrange(trial: Trial, node: TestNode, behaviour: Behaviour): void {
  const { world } = resolveOptions({}, trial.nodes.length);
  if (behaviour === 'is taken') node.occupy('r', 60_000);
  if (behaviour === 'is stale') {
    const later = (trial.environment.wallClock() + 1_000) * 1_000;
    node.recordToken(world, 'r', Math.floor(later));
  }
  if (behaviour === 'is quarantined') node.fail('quarantined');
  if (behaviour === 'is down') node.refuse('acquire');
  if (behaviour === 'loses the answer') node.fail('answerLost', 'acquire');
}

/** Every way in which `nodeCount` nodes may behave. */
function* casts(nodeCount: number, parts: readonly Behaviour[]): Generator<readonly Behaviour[]> {
  if (nodeCount === 0) {
    yield [];
    return;
  }
  for (const rest of casts(nodeCount - 1, parts)) {
    for (const behaviour of parts) yield [...rest, behaviour];
  }
}

/** Plays one cast; a description of what is wrong, or nothing. */
async function play(cast: readonly Behaviour[], delays: readonly number[]): Promise<string[]> {
  const trial = prepare(cast.length);
  cast.forEach((behaviour, index) => {
    const node = trial.nodes[index];
    if (node === undefined) return;
    arrange(trial, node, behaviour);
    node.delay({ answer: delays[index] ?? 0 });
  });
  trial.attempt.start(timeout);
  await trial.environment.advance(timeout);
  const verdict = trial.verdict();
  const isWon = 2 * cast.filter((behaviour) => behaviour === 'grants').length > cast.length;
  await trial.environment.advance(timeout);
  const owners = await trial.owners();
  const wrong: string[] = [];
  if (trial.onSettled.mock.calls.length !== 1) wrong.push('did not settle once');
  if ((verdict === 'granted') !== isWon) wrong.push(`came to ${verdict}`);
  if (trial.environment.pendingTimers > 0) wrong.push('left a timer');
  const keys = owners.filter((owner) => owner === ownerId).length;
  if (!isWon && keys > 0) wrong.push(`left ${keys} keys`);
  if (isWon && 2 * keys <= cast.length) wrong.push('lost keys');
  return wrong.map((what) => `${cast.join(', ')}: ${what}`);
}

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

describe('one hung node of three', () => {
  it('does not slow an attempt down: it ends with the answers of the majority', async () => {
    const trial = prepare(3);
    trial.nodes[0]?.hang();

    trial.attempt.start(timeout);
    await trial.environment.settle();

    expect(trial.verdict()).toBe('granted');
  });

  it('ends a vote that it would decide after the node timeout', async () => {
    const trial = prepare(3);
    trial.nodes[0]?.hang();
    trial.nodes[1]?.occupy('r', 60_000);

    trial.attempt.start(timeout);
    await trial.environment.advance(timeout - 1);
    const before = trial.result();
    const timersHoldingTheProcess = trial.environment.processHoldingTimers;
    await trial.environment.advance(1);

    expect(before).toBeUndefined();
    expect(timersHoldingTheProcess).toBe(1);
    expect(trial.verdict()).toBe('taken');
  });
});

describe('a quorum that comes too late', () => {
  it('is refused although nobody else holds the lock, and undone', async () => {
    const trial = prepare(3);
    for (const node of trial.nodes) node.delay({ answer: 1 });

    trial.attempt.start(timeout);
    await trial.environment.settle();
    trial.environment.block(ttl / 2);
    await trial.environment.advance(1);

    expect(trial.verdict()).toBe('expired');
    expect(await trial.owners()).toEqual([null, null, null]);
  });

  it.each([
    ['granted', 'before', 0.5],
    ['expired', 'at', 0],
  ] as const)('is %s %s half a ttl from the end of its validity', async (verdict, _when, left) => {
    const trial = prepare(3);
    for (const node of trial.nodes) node.delay({ answer: 1 });

    trial.attempt.start(timeout);
    await trial.environment.settle();
    trial.environment.block(ttl * 0.99 - 2 - ttl / 2 - left);
    await trial.environment.advance(0);

    expect(trial.verdict()).toBe(verdict);
  });
});

describe('after a failed attempt', () => {
  it('the nodes that did not answer are undone too, when they run again', async () => {
    const trial = prepare(3);
    trial.nodes[0]?.hang();
    trial.nodes[1]?.occupy('r', 60_000);
    trial.nodes[2]?.occupy('r', 60_000);

    trial.attempt.start(timeout);
    await trial.environment.advance(timeout);
    trial.nodes[0]?.heal();
    await trial.environment.settle();

    expect(trial.verdict()).toBe('taken');
    expect(await trial.nodes[0]?.ownerOf('r')).toBeNull();
  });

  it('a grant that arrives late is released once more', async () => {
    const trial = prepare(3);
    for (const node of trial.nodes.slice(1)) node.occupy('r', 60_000);
    const [late] = trial.nodes;
    if (late !== undefined) late.delay({ answer: 50 });

    trial.attempt.start(timeout);
    await trial.environment.advance(100);

    expect(late?.count('release')).toBe(2);
  });

  it('an answer that arrives late and says that nothing was stored needs no release', async () => {
    const trial = prepare(3);
    for (const node of trial.nodes) node.occupy('r', 60_000);
    const [late] = trial.nodes;
    if (late !== undefined) late.delay({ answer: 50 });

    trial.attempt.start(timeout);
    await trial.environment.advance(100);

    expect(late?.count('release')).toBe(1);
  });

  it('late grants never make it a success', async () => {
    const trial = prepare(3);
    for (const node of trial.nodes) node.delay({ answer: timeout + 100 });

    trial.attempt.start(timeout);
    await trial.environment.advance(2 * timeout);

    expect(trial.onSettled).toHaveBeenCalledTimes(1);
    expect(trial.verdict()).toBe('noQuorum');
    expect(await trial.owners()).toEqual([null, null, null]);
  });

  it('a node that stays silent is asked to release as well', async () => {
    const trial = prepare(3);
    for (const node of trial.nodes) node.fail('requestLost', 'acquire');

    trial.attempt.start(timeout);
    await trial.environment.advance(timeout);

    expect(releases(trial)).toEqual([1, 1, 1]);
  });

  it.each<Behaviour>(['is taken', 'is stale'])(
    'a node that %s is asked to release, lest the acquisition comes there once more',
    async (behaviour) => {
      const trial = prepare(3);
      for (const node of trial.nodes) arrange(trial, node, behaviour);

      trial.attempt.start(timeout);
      await trial.environment.settle();

      expect(releases(trial)).toEqual([1, 1, 1]);
    },
  );

  it('a node that was never sent anything has nothing to release', async () => {
    const trial = prepare(3);
    for (const node of trial.nodes) node.refuse('acquire');

    trial.attempt.start(timeout);
    await trial.environment.settle();

    // Two are enough to decide: the third had not said so yet.
    expect(releases(trial)).toEqual([0, 0, 1]);
  });
});

describe('an answer that arrives twice', () => {
  it('counts once: one grant of three nodes is no quorum', async () => {
    const trial = prepare(3);
    trial.nodes[0]?.fail('answerDoubled', 'acquire');
    trial.nodes[1]?.hang();
    trial.nodes[2]?.hang();

    trial.attempt.start(timeout);
    await trial.environment.advance(timeout);

    expect(trial.verdict()).toBe('noQuorum');
  });
});

describe('an attempt', () => {
  it('that is cancelled leaves no key', async () => {
    const trial = prepare(3);
    for (const node of trial.nodes) node.delay({ request: 5, answer: 5 });
    trial.attempt.start(timeout);
    await trial.environment.advance(7);

    trial.attempt.cancel();
    await trial.environment.advance(20);

    expect(trial.verdict()).toBe('cancelled');
    expect(await trial.owners()).toEqual([null, null, null]);
    expect(trial.environment.pendingTimers).toBe(0);
  });

  it('that has settled is not touched by a cancellation', async () => {
    const won = prepare(3);
    won.attempt.start(timeout);
    await won.environment.settle();
    const lost = prepare(3);
    for (const node of lost.nodes) node.occupy('r', 60_000);
    lost.attempt.start(timeout);
    await lost.environment.settle();

    won.attempt.cancel();
    lost.attempt.cancel();

    expect(won.onSettled).toHaveBeenCalledTimes(1);
    expect(won.verdict()).toBe('granted');
    expect(await won.owners()).toEqual([ownerId, ownerId, ownerId]);
    expect(lost.onSettled).toHaveBeenCalledTimes(1);
    expect(lost.verdict()).toBe('taken');
    expect(releases(lost)).toEqual([1, 1, 1]);
  });

  it('tells what each node had said when it failed', async () => {
    const trial = prepare(3);
    trial.nodes[0]?.fail('misconfigured', 'acquire');
    trial.nodes[1]?.fail('misconfigured', 'acquire');
    trial.nodes[2]?.hang();

    trial.attempt.start(timeout);
    await trial.environment.settle();

    const result = trial.result();
    expect(result).toMatchObject({
      verdict: 'misconfigured',
      answers: [
        { vote: 'failed', isMisconfiguration: true },
        { vote: 'failed', isMisconfiguration: true },
        null,
      ],
    });
  });
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

describe('the undo of an attempt', () => {
  const undoAt = (node: TestNode | undefined): OwnerRequest | null =>
    node?.calls.find(({ operation }) => operation === 'release')?.request ?? null;

  it.each([
    ['of a split vote tells those who wait', 'taken', true],
    ['that too few nodes answered tells nobody: its own process would hear it', 'down', false],
  ])('%s', async (_, kind, wakes) => {
    const trial = prepare(3);
    for (const node of trial.nodes.slice(1)) {
      if (kind === 'taken') node.occupy('r', 60_000);
      else node.fail('quarantined', 'acquire');
      node.delay({ answer: 1 });
    }

    trial.attempt.start(timeout);
    await trial.environment.advance(1);

    expect(undoAt(trial.nodes[0])).toMatchObject({ wakes });
  });

  it('tells those who wait where a quorum came too late', async () => {
    const trial = prepare(3);
    for (const node of trial.nodes) node.delay({ answer: ttl });

    trial.attempt.start(2 * ttl);
    await trial.environment.advance(ttl);

    expect(trial.verdict()).toBe('expired');
    expect(undoAt(trial.nodes[0])).toMatchObject({ wakes: true });
  });

  it('tells nobody of what was stored without a vote', async () => {
    const trial = prepare(3);
    trial.nodes[1]?.occupy('r', 60_000);
    trial.nodes[2]?.fail('quarantined');

    trial.attempt.start(timeout);
    await trial.environment.settle();

    expect(trial.verdict()).toBe('taken');
    expect(undoAt(trial.nodes[2])).toMatchObject({ wakes: false });
  });
});
