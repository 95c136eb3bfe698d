// Locked calls, and endpoints among them, get what their context and the locks of others leave them,
// whatever fails.
// Rejections that nobody handles fail the test, by Jest.
import { expect, it } from '@jest/globals';

import { findingsOf } from '../core/play-checks.js';
import { CallPlay } from './call-play.js';

const PLAYS = 150;

it('calls inside calls get and give what they are due, at whatever moment nodes fail', async () => {
  expect(await findingsOf(PLAYS, (seed) => new CallPlay(seed))).toEqual([]);
});
