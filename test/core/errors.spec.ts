import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';

import { describe, expect, it } from '@jest/globals';

import {
  describeResources,
  describeVotes,
  LockExpiredError,
  LockLostError,
  LockReentryError,
  LockTakenError,
  NoQuorumError,
  RedlockClosedError,
  RedlockError,
  type LossReason,
  type NodeVote,
} from '../../lib/core/errors.js';
import { describeAnswer, mayHoldKeys } from '../../lib/core/node-votes.js';
import { setScene } from './scene.js';
import type { AcquireAnswer, ExtendAnswer } from '../../lib/core/lock-node.js';

const root = join(import.meta.dirname, '../..');
const errorsPage = readFileSync(join(root, 'docs/ERRORS.md'), 'utf8');
const details = { resources: ['r'] };
const all: readonly (readonly [string, string, RedlockError])[] = [
  ['LockTakenError', 'LOCK_TAKEN', new LockTakenError('m', { ...details, retryAfter: 5 })],
  ['NoQuorumError', 'NO_QUORUM', new NoQuorumError('m', details)],
  ['LockExpiredError', 'LOCK_EXPIRED', new LockExpiredError('m', details)],
  ['LockLostError', 'LOCK_LOST', new LockLostError('m', { ...details, reason: 'expired' })],
  ['LockReentryError', 'LOCK_REENTRY', new LockReentryError('m', details)],
  ['RedlockClosedError', 'REDLOCK_CLOSED', new RedlockClosedError('m', details)],
];
const classes = [
  LockTakenError,
  NoQuorumError,
  LockExpiredError,
  LockLostError,
  LockReentryError,
  RedlockClosedError,
];

describe.each(all)('%s', (name, code, error) => {
  it('is an Error and a RedlockError with a name, a stable code, resources and votes', () => {
    expect(error).toBeInstanceOf(Error);
    expect(error).toBeInstanceOf(RedlockError);
    expect(error).toMatchObject({ name, code, resources: ['r'], votes: [] });
    expect(error.stack).toContain('errors.spec');
  });

  it('has names of its own: who changes them changes no lock', () => {
    expect(error.resources).not.toBe(details.resources);
  });

  it('is an instance of its own class alone', () => {
    const matching = classes.filter((type) => error instanceof type);

    expect(matching.map((type) => type.name)).toEqual([name]);
  });
});

describe.each(all)('the message of %s', (_name, code, error) => {
  it('ends with what to do, and names a section of the documents that the package ships', () => {
    const section = code.toLowerCase().replaceAll('_', '-');

    expect(error.message).toMatch(/^m\. [A-Z][^.]{20,}/);
    expect(error.message).toContain(`(docs/ERRORS.md#${section} of nestjs-locked)`);
    // Whatever renders Markdown makes the anchor of a heading from its text.
    expect(errorsPage).toContain(`\n## ${section}\n`);
    expect(errorsPage).toContain(`\`${code}\``);
  });
});

describe('the page on errors', () => {
  const sectionOf = (start: string): string => errorsPage.split(start)[1]?.split('\n## ')[0] ?? '';

  it('says what each vote means', () => {
    const votes: Record<NodeVote['vote'], true> = {
      granted: true,
      taken: true,
      stale: true,
      quarantined: true,
      failed: true,
      revoked: true,
      none: true,
    };

    const said = [...sectionOf('A vote is\n').matchAll(/^- `(\w+)`:/gm)];

    expect(said.map(([, vote]) => vote)).toEqual(Object.keys(votes));
  });

  it('says what to do about each reason for which a lock is lost', () => {
    const reasons: Record<LossReason, true> = {
      expired: true,
      suspended: true,
      revoked: true,
      maxHold: true,
      closed: true,
      released: true,
    };

    const said = [...sectionOf('\n## lock-lost\n').matchAll(/^\| `(\w+)` \|/gm)];

    expect(said.map(([, reason]) => reason)).toEqual(['reason', ...Object.keys(reasons)]);
  });
});

describe('an error', () => {
  it('carries votes and a cause where there are any', () => {
    const votes = [{ node: 'a', vote: 'granted' as const, message: '' }];
    const cause = new Error('why');

    const error = new NoQuorumError('m', { ...details, votes, cause });

    expect(error.votes).toBe(votes);
    expect(error.cause).toBe(cause);
    expect('cause' in new NoQuorumError('m', details)).toBe(false);
  });

  it('of a taken lock says when it may be free', () => {
    expect(new LockTakenError('m', { ...details, retryAfter: 5 })).toMatchObject({
      retryAfter: 5,
      taken: [],
    });
  });

  it('of a lost lock says why, and what the body returned', () => {
    const error = new LockLostError('m', { ...details, reason: 'revoked', result: 42 });

    expect(error).toMatchObject({ reason: 'revoked', result: 42 });
  });

  it('of a lost lock shows loggers nothing of what the body returned', () => {
    const result: Record<string, unknown> = { customer: 'Ann' };
    result.itself = result;

    const error = new LockLostError('m', { ...details, reason: 'revoked', result });

    expect(error.result).toBe(result);
    expect(inspect(error)).toContain("reason: 'revoked'");
    expect(inspect(new Error('outer', { cause: error }))).not.toContain('Ann');
    expect(JSON.stringify(error)).not.toContain('Ann');
  });

  it('of the other module format of the package is recognised by its code', () => {
    const foreign = Object.assign(new Error('m'), {
      [Symbol.for('nestjs-locked.error')]: true,
      code: 'LOCK_TAKEN',
    });

    expect(foreign).toBeInstanceOf(RedlockError);
    expect(foreign).toBeInstanceOf(LockTakenError);
    expect(foreign).not.toBeInstanceOf(NoQuorumError);
  });

  it.each([
    ['null', null],
    ['a string', 'LOCK_TAKEN'],
    ['an error of another library with the same code', { code: 'LOCK_TAKEN' }],
    ['a branded thing without a code', { [Symbol.for('nestjs-locked.error')]: true }],
  ])('is not what only looks like one: %s', (_name, value) => {
    expect(value).not.toBeInstanceOf(LockTakenError);
  });

  it("of a user's own subclass is an instance of both, and others are not of the subclass", () => {
    class StockTakenError extends LockTakenError {}

    const own = new StockTakenError('m', { ...details, retryAfter: null });

    expect(own).toBeInstanceOf(StockTakenError);
    expect(own).toBeInstanceOf(LockTakenError);
    expect(all[0]?.[2]).not.toBeInstanceOf(StockTakenError);
  });
});

describe('in a message', () => {
  it('votes are told node by node', () => {
    const told = describeVotes([
      { node: 'redis://a:6379', vote: 'granted', message: '' },
      { node: 'redis://b:6379', vote: 'failed', message: 'LOADING' },
      { node: 'redis://c:6379', vote: 'none', message: '' },
    ]);

    expect(told).toBe(
      'redis://a:6379 granted, redis://b:6379 failed (LOADING), redis://c:6379 had not answered yet',
    );
  });

  it('resources are quoted', () => {
    expect(describeResources(['a', 'b"c'])).toBe('"a", "b\\"c"');
  });

  it('the first ten of many resources are named, and the others are counted', () => {
    const names = Array.from({ length: 12 }, (_, index) => `r${index}`);

    expect(describeResources(names.slice(0, 10))).toMatch(/^"r0", .*, "r9"$/);
    expect(describeResources(names)).toMatch(/^"r0", .*, "r9" and 2 more$/);
  });
});

describe('the answer of a node', () => {
  const failed = { vote: 'failed', isMisconfiguration: false, message: 'LOADING' } as const;
  const answers: readonly (readonly [AcquireAnswer | ExtendAnswer, string, boolean])[] = [
    [{ vote: 'granted', nodeTime: 1 }, '', true],
    [{ vote: 'revoked' }, 'the key was missing or is held by another owner', true],
    [{ vote: 'taken', remaining: 50, nth: 0, ownerId: 'o' }, 'for another 50 ms', false],
    [{ vote: 'taken', remaining: -1, nth: 0, ownerId: 'o' }, '', false],
    [
      { vote: 'stale', isAhead: true, low: 1, nodeTime: 1 },
      'the fencing token is ahead of its clock',
      false,
    ],
    [
      { vote: 'stale', isAhead: false, low: 1, nodeTime: 1 },
      'it knows a higher fencing token',
      false,
    ],
    [
      { vote: 'quarantined', remaining: 70 },
      'may have forgotten locks that are held; its votes count in 70 ms',
      true,
    ],
    [{ ...failed, mayHold: true }, 'LOADING', true],
    [{ ...failed, mayHold: false }, 'LOADING', false],
  ];

  it.each(answers)('%j is told in words', (answer, message) => {
    const { node } = setScene();

    expect(describeAnswer(node(0), answer)).toEqual({
      node: 'node-0',
      vote: answer.vote,
      message,
    });
  });

  it.each(answers)('%j says whether a key may be there', (answer, _message, mayHold) => {
    expect(mayHoldKeys(answer)).toBe(mayHold);
  });

  it('that never came is told as none', () => {
    const { node } = setScene();

    expect(describeAnswer(node(0), null)).toEqual({ node: 'node-0', vote: 'none', message: '' });
  });
});
