// Nobody breaks a lock or leaves anything, whatever he does at whatever moment.
import { expect, it } from '@jest/globals';

import { Play } from './random-play.js';

const PLAYS = 600;

it('nobody who acts on what he is told, at whatever moment, breaks a lock or leaves anything', async () => {
  const findings: string[] = [];
  for (let seed = 1; seed <= PLAYS; seed += 1) {
    const play = new Play(seed);
    await play.run();
    findings.push(...play.findings);
  }
  expect(findings).toEqual([]);
}, 400_000);
