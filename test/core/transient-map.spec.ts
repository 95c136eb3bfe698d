// V8 is asked to collect garbage: what a map keeps alive is what this file is about.
import { describe, expect, it } from '@jest/globals';

import { TransientMap } from '../../lib/core/transient-map.js';
import { collectGarbage } from '../support/collect-garbage.js';

/** More than are added before all entries move. */
const MANY = 2_000;
const LIVE = 500;

describe('TransientMap', () => {
  it('has what was set, until it is deleted', () => {
    const map = new TransientMap<string, number>();
    map.set('a', 1);
    map.set('b', 2);
    map.set('a', 3);
    map.delete('b');
    map.delete('never');
    expect(map.size).toBe(1);
    expect(map.get('a')).toBe(3);
    expect(map.get('b')).toBeUndefined();
    expect([map.has('a'), map.has('b')]).toEqual([true, false]);
  });

  it('keeps entries and their order while many others come and go', () => {
    const map = new TransientMap<number, string>();
    map.set(-1, 'first');
    map.set(-2, 'second');
    for (let key = 0; key < MANY; key += 1) {
      map.set(key, 'passing');
      if (key >= 10) map.delete(key - 10);
    }
    map.set(-3, 'last');
    expect(map.size).toBe(13);
    expect([...map.keys()]).toEqual([
      -1,
      -2,
      ...Array.from({ length: 10 }, (_, n) => MANY - 10 + n),
      -3,
    ]);
    expect([...map.values()].at(0)).toBe('first');
    expect([...map.values()].at(-1)).toBe('last');
  });

  it('leaves out what is deleted while somebody goes over it', () => {
    const map = new TransientMap<number, number>();
    for (let key = 0; key < MANY; key += 1) map.set(key, key);
    const seen: number[] = [];
    for (const key of map.keys()) {
      seen.push(key);
      map.delete(key);
      map.delete(key + 1);
    }
    expect(seen).toHaveLength(MANY / 2);
    expect(map.size).toBe(0);
  });

  it('leaves what was deleted to the next collections of young objects', () => {
    const map = new TransientMap<number, object>();
    let key = 0;
    const turn = (): void => {
      map.set(
        key,
        Array.from({ length: 100 }, () => key),
      );
      map.delete(key - LIVE);
      key += 1;
    };
    const turnOften = (): void => {
      for (let turns = 0; turns < 10 * MANY; turns += 1) {
        turn();
        if (turns % MANY === 0) collectGarbage({ type: 'minor' });
      }
    };
    turnOften();
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    turnOften();
    collectGarbage({ type: 'minor' });
    collectGarbage({ type: 'minor' });
    // All that went through it is 16 MB.
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(4_000_000);
  });
});
