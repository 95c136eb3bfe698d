import { describe, expect, it } from '@jest/globals';

import { readAcquired } from '../../lib/nodes/redis-replies.js';

describe('the answer to an acquisition', () => {
  it.each<[unknown, unknown]>([
    [17, { vote: 'granted', nodeTime: 1_700 }],
    [[17, 'taken', 5, 1, 'o:1'], { vote: 'taken', remaining: 5, nth: 1, ownerId: 'o:1' }],
    [[17, 'taken', -1], { vote: 'taken', remaining: -1, nth: 0, ownerId: '' }],
    [[17, 'quarantined', 5], { vote: 'quarantined', remaining: 5 }],
    [[17, 'stale', 5], { vote: 'stale', isAhead: false, low: 5, nodeTime: 1_700 }],
    [[17, 'ahead', 5], { vote: 'stale', isAhead: true, low: 5, nodeTime: 1_700 }],
  ])('%j is a vote', (reply, answer) => {
    expect(readAcquired(reply)).toEqual(answer);
  });

  it.each([
    [null],
    ['OK'],
    [-1],
    [1.5],
    [[]],
    [[17, 'granted']],
    [[17, 'taken', '5', 0, 'o:1']],
    [[17, 'taken', 5, 0.5, 'o:1']],
    [[17, 'taken', 5, 0, 7]],
    [[17, 'stale', 2 ** 60]],
  ])('%j is no vote, and may have locked', (reply) => {
    expect(readAcquired(reply)).toMatchObject({
      vote: 'failed',
      mayHold: true,
      message: `An unexpected reply: ${JSON.stringify(reply)}`,
    });
  });
});
