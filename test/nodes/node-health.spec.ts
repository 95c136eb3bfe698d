import { beforeEach, describe, expect, it } from '@jest/globals';

import { lostOutcome, unsentOutcome } from '../../lib/nodes/redis-outcomes.js';
import { startHealth } from './health-scene.js';

let { environment, health, log } = startHealth();

beforeEach(() => {
  ({ environment, health, log } = startHealth());
});

describe('a node that is suspended and resumes over and over', () => {
  async function flap(times: number): Promise<void> {
    for (let count = 0; count < times; count += 1) {
      health.noteSuspension(120, 1);
      expect(health.state).toBe('suspended');
      await environment.advance(100);
      health.noteResumption();
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
        'Suspended: silent for 120 ms, commands unanswered: 1. Suspended 299 more times since this was last logged.',
        'Connected.',
      ]).flat(),
    ]);
  });

  it('says to a call only why it is not asked: how often that is so is for the log', async () => {
    await flap(400);

    health.noteSuspension(120, 1);

    expect(health.failure.message).toBe('Suspended: silent for 120 ms, commands unanswered: 1.');
  });

  it('is told of once as long as it is silent, and when it is back', async () => {
    for (let look = 0; look < 100; look += 1) {
      health.noteSuspension(120 + 30 * look, 1);
      await environment.advance(30);
    }
    health.noteResumption();
    await environment.settle();

    expect(log.messages.slice(1)).toEqual([
      'Suspended: silent for 120 ms, commands unanswered: 1.',
      'Connected.',
    ]);
  });

  it('is told of at once when it is lost, and when it is back', async () => {
    await flap(2);
    health.noteSuspension(120, 1);
    health.noteFailure(lostOutcome('silent for 5000 ms'));
    health.noteUp([]);
    await environment.settle();

    expect(log.messages.slice(3)).toEqual([expect.stringContaining('5000 ms'), 'Connected.']);
  });

  it('is told of at once with what is found wrong', async () => {
    await flap(2);
    health.noteRefusal('releases', 'NOPERM');
    await environment.settle();

    expect(log.messages.slice(3)).toEqual(['It refuses releases: NOPERM.']);
  });
});

describe('a node that refuses locks', () => {
  const REFUSAL = 'It refuses locks: OOM.';

  it('is told of once, and has it among its findings, until it grants again', async () => {
    for (let count = 0; count < 100; count += 1) {
      health.noteRefusal('locks', 'OOM');
      await environment.advance(1_000);
      health.noteGrant('locks');
    }
    const { findings } = health.status();
    health.noteRefusal('locks', 'NOREPLICAS');
    await environment.advance(10_000);
    health.noteGrant('locks');
    await environment.settle();

    expect(findings).toEqual([REFUSAL]);
    expect(health.status().findings).toEqual([]);
    expect(log.messages).toEqual(['Connected.', REFUSAL, 'It grants locks again.']);
    expect(log.events.map(({ isTrouble }) => isTrouble)).toEqual([false, true, false]);
  });

  it('has the latest reason among its findings, which is what is to be mended now', async () => {
    health.noteRefusal('locks', 'MISCONF Errors writing to disk');
    health.noteRefusal('locks', 'OOM');
    await environment.settle();

    expect(health.status().findings).toEqual([REFUSAL]);
    expect(log.messages.slice(1)).toEqual(['It refuses locks: MISCONF Errors writing to disk.']);
  });

  it('is another once it was lost', async () => {
    health.noteRefusal('locks', 'OOM');
    health.noteFailure(lostOutcome('connection closed'));
    health.noteRefusal('locks', 'OOM');
    health.noteUp([]);
    await environment.settle();

    expect(health.status().findings).toEqual([]);
    expect(log.messages.slice(1)).toEqual([REFUSAL, 'connection closed', 'Connected.']);
  });
});

describe('a node with findings', () => {
  it('is told to be back, without what was told before', async () => {
    health.noteFailure(lostOutcome('first'));
    health.noteUp(['One.']);
    health.noteFailure(lostOutcome('second'));
    health.noteUp(['One.']);
    health.noteFailure(lostOutcome('third'));
    health.noteUp(['One.', 'Two.']);
    await environment.settle();

    const told = log.events.map(({ message, isTrouble }) => [message, isTrouble]);
    expect(told.slice(1)).toEqual([
      ['first', true],
      ['Connected. One.', true],
      ['second', true],
      ['Connected.', false],
      ['third', true],
      ['Connected. Two.', true],
    ]);
  });

  it('has none any more when what was refused is gone', () => {
    health.noteFailure(unsentOutcome('It is a slave, and a node is a master.', true));
    health.noteFailure(lostOutcome('connect ECONNREFUSED'));

    expect(health.status()).toMatchObject({ state: 'down', findings: [] });
  });

  it('is told of again when it is refused for another reason, and for that once', async () => {
    const reasons = ['NOAUTH', 'It is a slave.', 'It is a slave.'];

    for (const reason of reasons) health.noteFailure(unsentOutcome(reason, true));
    await environment.settle();

    expect(log.messages.slice(1)).toEqual(['NOAUTH', 'It is a slave.']);
    expect(health.status().findings).toEqual(['It is a slave.']);
  });

  it('keeps none for each time that a server words a refusal anew', () => {
    for (let count = 0; count < 1_000; count += 1) health.noteRefusal('releases', `${count}`);

    expect(health.status().findings).toEqual(['It refuses releases: 999.']);
  });
});

describe('a node that refuses releases', () => {
  const REFUSAL = 'It refuses releases: NOPERM.';

  it('is told of, and has it among its findings until it does what they ask again', async () => {
    health.noteRefusal('releases', 'NOPERM');
    await environment.advance(5_000);
    health.noteRefusal('releases', 'NOPERM');
    await environment.advance(9_999);
    health.noteGrant('releases');
    const before = health.status().findings;
    await environment.advance(1);
    health.noteGrant('locks');
    const { findings } = health.status();
    health.noteGrant('releases');
    await environment.settle();

    expect([before, findings]).toEqual([[REFUSAL], [REFUSAL]]);
    expect(health.status().findings).toEqual([]);
    // That it has done one is not told: there may have been nothing to do.
    expect(log.messages.slice(1)).toEqual([REFUSAL]);
  });
});
