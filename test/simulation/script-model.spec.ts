import { describe, expect, it } from '@jest/globals';

import { resolveOptions } from '../../lib/core/options.js';
import { OVERDUE, type World } from '../../lib/core/lock-node.js';
import { LISTENED, ScriptComparison } from './scripts/script-comparison.js';
import { connect } from '../support/redis-of-spec.js';
import { Random } from './random.js';
import { wakeChannel } from './script-model.js';

const OPERATIONS_MIN = 400;
/** On a busy machine some answers are rare. */
const OPERATIONS_MAX = 4_000;

describe('the model of the Redis scripts', () => {
  it.each([
    ['with fencing and quarantine', { fencing: true, quarantine: true }],
    ['with fencing alone', { fencing: true, quarantine: false }],
    ['with quarantine alone', { fencing: false, quarantine: true }],
    ['with neither', { fencing: false, quarantine: false }],
    ['with a key prefix', { fencing: true, quarantine: true, keyPrefix: 'p:' }],
  ])('answers and stores what a real server does, %s', async (_, options) => {
    const { world } = resolveOptions({ ttlMax: 300, ...options }, 3);
    const comparison = new ScriptComparison(world, new Random(options.fencing ? 7 : 8, 1));
    await comparison.start();
    const names = ['', LISTENED, OVERDUE + LISTENED];
    await connect().subscribe(...names.map((name) => wakeChannel(world, name)));

    // A run in which one answer never came would compare nothing of it.
    const expected = [...expectedVotes(world), 'told 0, 0 overdue', 'told 1, 1 overdue'];
    const isComplete = (): boolean => comparison.answers.size === expected.length;
    for (let count = 0; count < OPERATIONS_MIN || !isComplete(); count += 1) {
      if (count === OPERATIONS_MAX) break;
      await comparison.step();
    }

    expect([...comparison.answers].sort()).toEqual(expected);
  });
});

function expectedVotes(world: World): string[] {
  const always = ['certified', 'done', 'found', 'granted', 'oom', 'revoked', 'taken'];
  const fenced = world.fencing ? ['ahead', 'stale'] : [];
  const quarantined = world.quarantine > 0 ? ['quarantined'] : [];
  return [...always, ...fenced, ...quarantined].sort();
}
