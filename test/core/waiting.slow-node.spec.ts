// A resource that many processes want, and one node of three that is slower than the others.
import { describe, expect, it } from '@jest/globals';

import { Redlock } from '../../lib/core/redlock.js';
import { FaultyNode } from '../../lib/testing/faulty-node.js';
import { networkOf } from '../support/test-node.js';
import { setScene } from './scene.js';
import type { Milliseconds } from '../../lib/core/units.js';

const SECTION: Milliseconds = 60;
const NEAR: Milliseconds = 0.2;

/** How many turns six processes made in 4 s, with one node this far away. */
async function crowd(way: Milliseconds): Promise<number> {
  const scene = setScene();
  const { environment } = scene;
  const start = (): Redlock => {
    const nodes = scene.nodes.map((node, index) => {
      const far = new FaultyNode({ node, environment: networkOf(environment) });
      const delay = (index === 2 ? way : NEAR) * (1 + 0.1 * environment.random());
      far.delay({ request: delay, answer: delay });
      return far;
    });
    return new Redlock(nodes, {}, { environment });
  };
  let turns = 0;
  let hasEnded = false;
  const call = async (redlock: Redlock): Promise<void> => {
    while (!hasEnded) {
      await redlock.using('r', { ttl: 10_000, wait: 60_000 }, async () => {
        turns += 1;
        await new Promise<void>((resolve) => environment.schedule(SECTION, resolve));
      });
    }
  };
  const calls = Array.from({ length: 6 }, () => call(start()));
  await environment.advance(1_000);
  turns = 0;
  await environment.advance(4_000);
  const counted = turns;
  hasEnded = true;
  await scene.until(Promise.all(calls));
  return counted;
}

describe('processes that want one resource all the time', () => {
  it('keep the pace of two nodes that are near where the third is 200 ms away', async () => {
    expect(await crowd(200)).toBeGreaterThan(0.8 * (4_000 / (SECTION + 5 * NEAR)));
  });
});
