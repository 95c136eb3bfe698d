// The checks find what they are for: each history here is bad in one way.
import { describe, expect, it } from '@jest/globals';

import { faultKinds, promisesUnder } from './fault-table.js';
import { checkRun, longestOverlap, type RunRecord } from './history-check.js';
import type { HistoryEvent } from './history.js';

interface Wishes {
  readonly lock: string;
  readonly resources?: readonly string[];
  readonly token: number;
  readonly from: number;
  readonly until: number;
  /** Until when the lock said that it would be held. */
  readonly promised?: number;
  readonly ended?: number;
}

/** A lock that was called for 5 ms before it was granted, and seen to be held to its end. */
function claim(wishes: Wishes): HistoryEvent[] {
  const { lock, token, from, until, promised = until, ended } = wishes;
  const resources = wishes.resources ?? ['r'];
  return [
    { kind: 'grant', lock, resources, token, calledAt: from - 5, at: from },
    { kind: 'held', lock, at: until, promisedUntil: promised },
    ...(ended === undefined ? [] : [{ kind: 'ended', lock, at: ended } as const]),
  ];
}

function record(wishes: Partial<RunRecord>): RunRecord {
  return {
    events: [],
    faults: [],
    isQuarantined: true,
    registers: {},
    counters: {},
    recoveries: [],
    deaths: [],
    leftovers: [],
    ...wishes,
  };
}

function brokenBy(wishes: Partial<RunRecord>): string[] {
  return checkRun(record(wishes)).map(({ check }) => check);
}

describe('a good history', () => {
  it('has no violation', () => {
    const events = [
      ...claim({ lock: 'a', token: 1, from: 10, until: 20 }),
      ...claim({ lock: 'b', token: 2, from: 26, until: 30 }),
      ...claim({ lock: 'c', token: 1, from: 10, until: 20, resources: ['other'] }),
      { kind: 'incremented', increment: 'a#0', isSure: true },
      { kind: 'incremented', increment: 'b#0', isSure: true },
    ] as const;
    const counters = {
      r: [
        { increment: 'a#0', read: 0, written: 1 },
        { increment: 'b#0', read: 1, written: 2 },
      ],
    };
    const registers = {
      r: [
        { token: 1, read: 0, written: 1 },
        { token: 1, read: 1, written: 2 },
        { token: 2, read: 2, written: 3 },
      ],
    };
    const recoveries = [{ worker: 'w', took: 5, limit: 6_000 }];

    expect(brokenBy({ events, counters, registers, recoveries })).toEqual([]);
    expect(longestOverlap(events)).toBe(-6);
  });
});

describe('two holders', () => {
  const first = claim({ lock: 'a', token: 1, from: 10, until: 20 });

  it('are found where both saw their lock held', () => {
    const events = [...first, ...claim({ lock: 'b', token: 2, from: 19.5, until: 30 })];

    expect(brokenBy({ events })).toEqual(['exclusion']);
    expect(longestOverlap(events)).toBeCloseTo(0.5);
  });

  it('are found where one claim lies within another, and after a third', () => {
    const events = [
      ...claim({ lock: 'long', token: 1, from: 10, until: 100 }),
      ...claim({ lock: 'b', token: 2, from: 40, until: 41 }),
      ...claim({ lock: 'c', token: 3, from: 60, until: 61 }),
    ];

    expect(brokenBy({ events })).toEqual(['exclusion', 'exclusion']);
  });

  it('are found where a promise of the first had not run out', () => {
    const promising = claim({ lock: 'a', token: 1, from: 10, until: 12, promised: 20 });
    const events = [...promising, ...claim({ lock: 'b', token: 2, from: 19, until: 30 })];

    expect(brokenBy({ events })).toEqual(['exclusion']);
  });

  it('are none where the first gave the rest of its promise back', () => {
    const released = claim({ lock: 'a', token: 1, from: 10, until: 12, promised: 20, ended: 13 });
    const events = [...released, ...claim({ lock: 'b', token: 2, from: 19, until: 30 })];

    expect(brokenBy({ events })).toEqual([]);
  });

  it('are found in one of several resources', () => {
    const pair = claim({ lock: 'b', token: 2, from: 15, until: 30, resources: ['q', 'r'] });

    expect(brokenBy({ events: [...first, ...pair] })).toEqual(['exclusion']);
  });

  it('are no violation where nodes forgot and no quarantine was on: nobody promised that', () => {
    const events = [...first, ...claim({ lock: 'b', token: 2, from: 15, until: 30 })];

    expect(brokenBy({ events, faults: ['flush'], isQuarantined: false })).toEqual([]);
    expect(brokenBy({ events, faults: ['freeze'], isQuarantined: false })).toEqual(['exclusion']);
  });
});

describe('a token', () => {
  it('that two grants have is found', () => {
    const events = [
      ...claim({ lock: 'a', token: 7, from: 10, until: 20 }),
      ...claim({ lock: 'b', token: 7, from: 30, until: 40 }),
    ];

    expect(brokenBy({ events })).toEqual(['tokens']);
  });

  it('that is smaller than one granted before the call is found', () => {
    const events = [
      ...claim({ lock: 'a', token: 9, from: 10, until: 20 }),
      ...claim({ lock: 'b', token: 8, from: 30, until: 40 }),
    ];

    expect(brokenBy({ events })).toEqual(['tokens']);
  });

  it('of a lock that was over before anybody looked counts, too', () => {
    const [grant] = claim({ lock: 'a', token: 9, from: 10, until: 20 });
    const later = claim({ lock: 'b', token: 8, from: 30, until: 40 });

    expect(brokenBy({ events: grant === undefined ? [] : [grant, ...later] })).toEqual(['tokens']);
  });

  it('may be smaller where the calls were under way together', () => {
    const events: HistoryEvent[] = [
      { kind: 'grant', lock: 'a', resources: ['r'], token: 9, calledAt: 0, at: 10 },
      { kind: 'grant', lock: 'b', resources: ['r'], token: 8, calledAt: 9, at: 30 },
    ];

    expect(brokenBy({ events })).toEqual([]);
  });
});

describe('what locks guard', () => {
  it.each([
    ['went back to an older token', { token: 4, read: 1, written: 2 }],
    ['lost an update', { token: 6, read: 0, written: 1 }],
  ])('is found where the fenced register %s', (_what, write) => {
    const registers = { r: [{ token: 5, read: 0, written: 1 }, write] };

    expect(brokenBy({ registers })).toEqual(['register']);
  });

  const counters = {
    r: [
      { increment: 'a', read: 0, written: 1 },
      { increment: 'b', read: 0, written: 1 },
    ],
  };
  const wrote = (increment: string, isSure: boolean): HistoryEvent => ({
    kind: 'incremented',
    increment,
    isSure,
  });

  it('is found where two holders undid each other in the counter', () => {
    expect(brokenBy({ counters, events: [wrote('a', true), wrote('b', true)] })).toEqual([
      'counter',
    ]);
  });

  it('is found where one name stands for two writes, one of which may be in doubt', () => {
    const twice = { increment: 'a', read: 0, written: 1 };

    expect(brokenBy({ counters: { r: [twice, { ...twice, read: 1 }] } })).toEqual(['counter']);
  });

  it.each([
    ['the late', [wrote('a', false), wrote('b', true)]],
    ['the late', [wrote('a', true), wrote('b', false)]],
    ['the killed', [wrote('a', true)]],
  ])('is promised nothing by %s writer', (_who, events) => {
    expect(brokenBy({ counters, events })).toEqual([]);
  });
});

describe('the rest', () => {
  it.each<[string, Partial<RunRecord>]>([
    ['availability', { recoveries: [{ worker: 'w', took: null, limit: 6_000 }] }],
    ['crash', { deaths: ['worker-0.1: SIGSEGV'] }],
    ['crash', { events: [{ kind: 'crashed', message: 'unhandled' }] }],
    ['revival', { events: [{ kind: 'revived', lock: 'a', at: 5 }] }],
    ['leftovers', { leftovers: ['shared-0'] }],
  ])('is found: %s', (check, wishes) => {
    expect(brokenBy(wishes)).toEqual([check]);
  });
});

describe('the table of faults', () => {
  it('suspends nothing while quarantine is on, and not everything without', () => {
    const all = promisesUnder(faultKinds, true);

    expect(all.size).toBe(8);
    expect(promisesUnder(['freeze', 'kill worker'], false)).toEqual(all);
    expect(promisesUnder(['restart'], false)).toEqual(
      new Set(['register', 'availability', 'crash', 'revival', 'leftovers']),
    );
  });
});
