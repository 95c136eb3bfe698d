// Nobody breaks a lock or leaves anything, whatever he does at whatever moment.
import { expect, it } from '@jest/globals';

import { findingsOf } from './play-checks.js';
import { Play } from './random-play.js';

const PLAYS = 600;

it('nobody who acts on what he is told, at whatever moment, breaks a lock or leaves anything', async () => {
  expect(await findingsOf(PLAYS, (seed) => new Play(seed))).toEqual([]);
}, 400_000);
