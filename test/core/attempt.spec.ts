import { describe, expect, it } from '@jest/globals';

import type { TestNode } from '../support/test-node.js';
import type { OwnerRequest } from '../../lib/core/lock-node.js';
import {
  ownerId,
  ttl,
  timeout,
  type Behaviour,
  prepare,
  releases,
  arrange,
} from './attempt-scene.js';

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

  it('is one request for all nodes where it can be, so that it is encoded once for all', async () => {
    const trial = prepare(3);
    for (const node of trial.nodes) node.occupy('r', 60_000);

    trial.attempt.start(timeout);
    await trial.environment.settle();

    const [first, ...others] = trial.nodes.map(undoAt);
    expect(first).toMatchObject({ ownerId, wakes: false });
    for (const other of others) expect(other).toBe(first);
  });

  it('tells those who wait only at the nodes where it kept others away', async () => {
    const trial = prepare(3);
    for (const node of trial.nodes.slice(1)) node.occupy('r', 60_000);
    for (const node of trial.nodes.slice(1)) node.delay({ answer: 1 });

    trial.attempt.start(timeout);
    await trial.environment.advance(1);

    const asked = trial.nodes.map((node) => undoAt(node));
    expect(asked).toMatchObject([{ wakes: true }, { wakes: false }, { wakes: false }]);
  });
});
