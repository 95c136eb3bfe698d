import { describe, expect, it } from '@jest/globals';

import { Redlock } from '../../lib/core/redlock.js';
import { heldBy, runHolding } from '../../lib/nest/lock-context.js';
import { findJoinable } from '../../lib/nest/reentry.js';
import { MemoryNode } from '../../lib/nodes/memory-node.js';
import { growth, LINEAR } from '../support/growth.js';

describe('a lock to join', () => {
  // Of one length and a common beginning: what two of them share has to be compared.
  const namesOf = (kind: number, count: number): string[] =>
    Array.from({ length: count }, (_, index) => `${'path/'.repeat(90)}${kind}:${10_000 + index}`);

  it('is looked for among thousands of resources, each looked at once', async () => {
    const domain = new Redlock([new MemoryNode()]);
    const place = 'Stock.move';
    const prepare = async (count: number) => {
      await using lock = await domain.acquire(namesOf(1, count));
      const held = await runHolding({ domain, lock, place }, async () => heldBy(domain));
      const caller = { held, isReentrant: true, place, isByHand: false };
      return () => expect(findJoinable(caller, namesOf(2, count))).toBeNull();
    };

    expect(await growth(prepare, 100)).toBeLessThan(LINEAR);
  });
});
