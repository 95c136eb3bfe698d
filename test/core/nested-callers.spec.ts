// Callers who take their locks in one order never wait for each other, nor for those who only queue.
import { expect, it } from '@jest/globals';

import { NestedPlay } from './nested-play.js';

const PLAYS = 60;

it('callers who lock in one order all get what they ask for inside their locks, and soon', async () => {
  const findings: string[] = [];
  for (let seed = 1; seed <= PLAYS; seed += 1) {
    const play = new NestedPlay(seed);
    await play.run();
    findings.push(...play.findings);
  }
  expect(findings).toEqual([]);
}, 200_000);
