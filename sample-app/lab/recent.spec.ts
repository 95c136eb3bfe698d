import { describe, expect, it } from '@jest/globals';

import { LogBook } from './log-book.js';
import type { LogKind, LogLine } from './messages.js';
import { Recent } from './recent.js';

describe('Recent', () => {
  it('keeps the newest, in the order in which they came', () => {
    const recent = new Recent<number>(3);
    for (const value of [1, 2, 3, 4]) recent.set(`${value}`, value);

    expect(recent.values).toEqual([2, 3, 4]);
    expect(recent.get('1')).toBeUndefined();
  });

  it('replaces a value in its place, and pushes none out for it', () => {
    const recent = new Recent<number>(2);
    recent.set('a', 1);
    recent.set('b', 2);
    recent.set('a', 3);

    expect(recent.values).toEqual([3, 2]);
  });

  it('is empty when it is drained', () => {
    const recent = new Recent<number>(2);
    recent.set('a', 1);

    expect(recent.drain()).toEqual([1]);
    expect(recent.drain()).toEqual([]);
  });
});

describe('LogBook', () => {
  it('keeps a loss however many acquisitions come after it, in the order of time', () => {
    const book = new LogBook(2);
    [line('lost', 1), line('acquired', 4), line('acquired', 2), line('acquired', 3)].forEach(
      (each) => book.add(each),
    );

    expect(book.lines.map(({ kind, at }) => [kind, at])).toEqual([
      ['lost', 1],
      ['acquired', 2],
      ['acquired', 3],
    ]);
    expect(book.drain()).toHaveLength(3);
    expect(book.lines).toEqual([]);
  });
});

function line(kind: LogKind, at: number): LogLine {
  return { id: `${kind} ${at}`, at, kind, source: 'app', text: '', votes: [], ownerId: null };
}
