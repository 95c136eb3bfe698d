import { describe, expect, it } from '@jest/globals';

import { Random } from '../simulation/random.js';
import { describeFault, drawRound, type PlannedFault } from './fault-plan.js';
import { faultEntry, faultKinds } from './fault-table.js';

const ensemble = { nodes: 5, workers: 4 };

function rounds(seed: number, count: number): PlannedFault[][] {
  const random = new Random(seed, 0);
  return Array.from({ length: count }, () => drawRound(random, ensemble));
}

describe('the rounds of a seed', () => {
  it('are the same each time, and others for another seed', () => {
    expect(rounds(7, 20)).toEqual(rounds(7, 20));
    expect(rounds(7, 20)).not.toEqual(rounds(8, 20));
  });

  it('have every kind of fault', () => {
    const drawn = new Set(rounds(1, 100).flatMap((faults) => faults.map(({ kind }) => kind)));

    expect([...drawn].sort()).toEqual([...faultKinds].sort());
  });

  it('never have two faults at one target at once', () => {
    for (const faults of rounds(3, 300)) {
      const freeAt = new Map<string, number>();
      for (const fault of faults) {
        const target = /\((.*?)( for .*)?\)$/.exec(describeFault(fault))?.[1] ?? '';
        expect(fault.from).toBeGreaterThanOrEqual(freeAt.get(target) ?? 0);
        freeAt.set(target, fault.until);
      }
    }
  });

  it('never make replicas of a majority, and leave a worker alone once it is killed', () => {
    for (const faults of rounds(4, 300)) {
      const replicas = faults.filter(({ kind }) => kind === 'become a replica');
      const killed = faults.filter(({ kind }) => kind === 'kill worker');
      const isLater = (index: number, worker: number): boolean =>
        faults
          .slice(index + 1)
          .some((fault) => faultEntry(fault.kind).target === 'worker' && fault.worker === worker);

      expect(new Set(replicas.map(({ node }) => node)).size).toBeLessThanOrEqual(2);
      expect(killed.filter((fault) => isLater(faults.indexOf(fault), fault.worker))).toEqual([]);
    }
  });

  it('mostly leave a majority of nodes and all ways to them alone, and sometimes do not', () => {
    const hit = rounds(5, 400).map(
      (faults) =>
        new Set(
          faults.flatMap(({ kind, node }) => (faultEntry(kind).target === 'worker' ? [] : [node])),
        ).size,
    );

    const spared = hit.filter((count) => count <= 2).length;
    expect(spared).toBeGreaterThan(120);
    expect(Math.max(...hit)).toBeGreaterThan(2);
  });
});
