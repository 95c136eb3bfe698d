import { describe, expect, it } from '@jest/globals';

import type { Visit } from '../lab/messages.js';
import { overlapsOf, sharedOf } from './overlaps.js';

describe('overlaps', () => {
  it('are none where each comes in when the one before has left', () => {
    expect(overlapsOf([visit(0, 10), visit(10, 20), visit(25, 30)])).toEqual([]);
  });

  it('are the time that two were inside, in any order', () => {
    expect(overlapsOf([visit(8, 20), visit(0, 10)])).toEqual([{ from: 8, to: 10 }]);
  });

  it('are one span where three were inside, and another later', () => {
    const visits = [visit(0, 10), visit(2, 6), visit(5, 9), visit(20, 30), visit(29, 40)];

    expect(overlapsOf(visits)).toEqual([
      { from: 2, to: 9 },
      { from: 29, to: 30 },
    ]);
  });

  it('are none with somebody of whom no end is known: the news of it may be late', () => {
    const left = visit(5, 10);
    const unknown = visit(0, null);

    expect(overlapsOf([unknown, left])).toEqual([]);
    expect(overlapsOf([unknown, visit(7, null)])).toEqual([]);
    expect(sharedOf(unknown, [{ from: 5, to: 10 }])).toEqual([]);
  });

  it('leave out who only waits', () => {
    const waiting = { ...visit(0, 10), enteredAt: null };

    expect(overlapsOf([waiting, visit(0, 10)])).toEqual([]);
    expect(sharedOf(waiting, [{ from: 0, to: 10 }])).toEqual([]);
  });

  it('are shared by each visit for the time that it was inside', () => {
    const overlaps = [
      { from: 2, to: 9 },
      { from: 29, to: 30 },
    ];

    expect(sharedOf(visit(5, 29), overlaps)).toEqual([{ from: 5, to: 9 }]);
  });
});

function visit(enteredAt: number, leftAt: number | null): Visit {
  return {
    id: `${enteredAt}`,
    replica: 1,
    counter: 0,
    cameAt: enteredAt,
    token: null,
    enteredAt,
    leftAt,
    outcome: null,
  };
}
