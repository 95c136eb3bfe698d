import { describe, expect, it } from '@jest/globals';

import { Redlock } from '../../lib/core/redlock.js';
import { heldBy, runHolding } from '../../lib/nest/lock-context.js';
import { findJoinable } from '../../lib/nest/reentry.js';
import { MemoryNode } from '../../lib/nodes/memory-node.js';

describe('a lock to join', () => {
  // Of one length and a common beginning: what two of them share has to be compared.
  const thousandNames = (kind: number): string[] =>
    Array.from({ length: 1_000 }, (_, index) => `${'path/'.repeat(90)}${kind}:${1_000 + index}`);

  it('is looked for among 40,000 resources without stopping the process for 100 ms', async () => {
    const domain = new Redlock([new MemoryNode()]);
    const place = 'Stock.move';
    const wanted = thousandNames(10);
    const lookInside = async (kind: number): Promise<number> => {
      if (kind > 10) {
        await using lock = await domain.acquire(thousandNames(kind));
        return await runHolding({ domain, lock, place }, () => lookInside(kind - 1));
      }
      const startedAt = performance.now();
      const caller = { held: heldBy(domain), isReentrant: true, place, isByHand: false };
      expect(findJoinable(caller, wanted)).toBeNull();
      return performance.now() - startedAt;
    };

    const stoppedFor = await lookInside(50);

    expect(stoppedFor).toBeLessThan(100);
  });
});
