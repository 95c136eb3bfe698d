// One resource that many processes want all the time: what its turns cost, and who gets them.
import { describe, expect, it } from '@jest/globals';

import { Redlock } from '../../lib/core/redlock.js';
import { FaultyNode } from '../../lib/testing/faulty-node.js';
import { networkOf } from '../support/test-node.js';
import { asked, setScene } from './scene.js';
import type { Milliseconds } from '../../lib/core/units.js';

const SECTION: Milliseconds = 10;

/** What became of a crowd in some seconds of virtual time. */
async function crowd(processes: number, nearest: Milliseconds, farthest: Milliseconds) {
  const scene = setScene();
  const { environment } = scene;
  const start = (): Redlock => {
    const nodes = scene.nodes.map((node) => {
      const way = nearest + (farthest - nearest) * environment.random();
      const far = new FaultyNode({ node, environment: networkOf(environment) });
      far.delay({ request: way, answer: way });
      return far;
    });
    return new Redlock(nodes, {}, { environment });
  };
  const counts = Array.from({ length: processes }, () => 0);
  let hasEnded = false;
  const call = async (redlock: Redlock, index: number): Promise<void> => {
    while (!hasEnded) {
      await redlock.using('r', { ttl: 10_000, wait: 60_000 }, async () => {
        counts[index] = (counts[index] ?? 0) + 1;
        await new Promise<void>((resolve) => environment.schedule(SECTION, resolve));
      });
    }
  };
  const calls = counts.map((_, index) => call(start(), index));
  // Until each has drawn its turn.
  await environment.advance(1_000);
  counts.fill(0);
  const before = asked(scene, 'acquire') + asked(scene, 'release');
  await environment.advance(4_000);
  const requests = asked(scene, 'acquire') + asked(scene, 'release') - before;
  const turns = counts.reduce((sum, count) => sum + count, 0);
  const fewest = Math.min(...counts);
  hasEnded = true;
  await scene.until(Promise.all(calls));
  return { perSecond: turns / 4, requestsPerTurn: requests / turns, fewest };
}

describe('processes that want one resource all the time', () => {
  it.each([
    { processes: 64, nearest: 0.25, farthest: 0.25, most: 40 },
    { processes: 32, nearest: 1, farthest: 1, most: 40 },
    { processes: 32, nearest: 0.3, farthest: 1, most: 60 },
    { processes: 32, nearest: 1, farthest: 5, most: 120 },
  ])(
    'take turns: $processes processes, $nearest to $farthest ms from the nodes',
    async ({ processes, nearest, farthest, most }) => {
      const { perSecond, requestsPerTurn, fewest } = await crowd(processes, nearest, farthest);

      // A release, a wake-up and the answer to an attempt are on their ways, one after the other.
      expect(perSecond).toBeGreaterThan(0.75 * (1_000 / (SECTION + 4 * farthest)));
      expect(requestsPerTurn).toBeLessThan(most);
      expect(fewest).toBeGreaterThan(0);
    },
  );
});
