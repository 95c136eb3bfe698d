import { beforeEach, describe, expect, it } from '@jest/globals';

import { NodeHealth } from '../../lib/nodes/node-health.js';
import { lostOutcome } from '../../lib/nodes/redis-outcomes.js';
import { NodeLog } from '../support/node-harness.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';

let environment: SimulatedEnvironment;
let log: NodeLog;
let health: NodeHealth;

beforeEach(() => {
  environment = new SimulatedEnvironment();
  log = new NodeLog();
  health = new NodeHealth('a', environment, log.observer);
  health.up([]);
});

describe('a node that is suspended and resumes over and over', () => {
  async function flap(times: number): Promise<void> {
    for (let count = 0; count < times; count += 1) {
      health.suspended(120, 1);
      expect(health.state).toBe('suspended');
      await environment.advance(100);
      health.resumed();
      expect(health.state).toBe('up');
      await environment.advance(100);
    }
  }

  it('is told of once a minute, with how often it was so', async () => {
    await flap(1_500);

    expect(log.messages).toEqual([
      'Connected.',
      'Suspended: silent for 120 ms, commands unanswered: 1.',
      'Connected.',
      ...Array.from({ length: 4 }, () => [
        'Suspended: silent for 120 ms, commands unanswered: 1. It was so 299 times since this was told.',
        'Connected.',
      ]).flat(),
    ]);
  });

  it('is told of at once when it is lost, and when it is back', async () => {
    await flap(2);
    health.suspended(120, 1);
    health.unavailable(lostOutcome('silent for 5000 ms'));
    health.up([]);
    await environment.settle();

    expect(log.messages.slice(3)).toEqual([expect.stringContaining('5000 ms'), 'Connected.']);
  });

  it('is told of at once with what is found wrong', async () => {
    await flap(2);
    health.found('It refuses releases.');
    await environment.settle();

    expect(log.messages.slice(3)).toEqual(['It refuses releases.']);
  });
});
