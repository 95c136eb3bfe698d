// How a node's quarantine is told, and its end.
import { beforeEach, describe, expect, it } from '@jest/globals';

import { lostOutcome } from '../../lib/nodes/redis-outcomes.js';
import { startHealth } from './health-scene.js';

let { environment, health, log } = startHealth();

beforeEach(() => {
  ({ environment, health, log } = startHealth());
});

describe('a quarantine', () => {
  it('has a remainder in whole milliseconds, of which the last is not over', async () => {
    health.noteQuarantine(30_000);

    await environment.advance(29_999.5);

    expect(health.status().quarantineRemaining).toBe(1);
  });

  it('keeps no process from its end, and is not waited for when the node is closed', () => {
    health.noteQuarantine(30_000);
    const waitedFor = [environment.pendingTimers, environment.processHoldingTimers];

    health.close();

    expect(waitedFor).toEqual([1, 0]);
    expect(environment.pendingTimers).toBe(0);
  });
});

describe('the end of a quarantine', () => {
  const BEGIN = expect.stringMatching(/^Its votes do not count for 30000 ms/);
  const END = 'Its votes count.';

  /** Loses the node for so long, and finds its votes not to count for `quarantine` ms then. */
  async function comeBackAfter(absence: number, quarantine: number): Promise<void> {
    health.noteFailure(lostOutcome('closed'));
    await environment.advance(absence);
    health.noteUp([]);
    health.noteQuarantine(quarantine);
    await environment.settle();
  }

  it('is told when it comes, and once', async () => {
    health.noteQuarantine(30_000);
    await environment.advance(30_000);
    health.noteQuarantine(0);
    await environment.settle();

    const told = log.events.map(({ message, isTrouble }) => [message, isTrouble]);
    expect(told.slice(1)).toEqual([
      [BEGIN, true],
      [END, false],
    ]);
  });

  it('is told when the last one is over, where the node was emptied again meanwhile', async () => {
    health.noteQuarantine(30_000);
    await environment.advance(10_000);
    health.noteQuarantine(30_000);
    await environment.advance(29_999);
    const before = [...log.messages];

    await environment.advance(1);

    expect(before.slice(1)).toEqual([BEGIN]);
    expect(log.messages.slice(1)).toEqual([BEGIN, END]);
  });

  it('is told of a node that was silent then when it answers again', async () => {
    health.noteQuarantine(30_000);
    health.noteSuspension(120, 1);
    await environment.advance(30_000);
    const before = log.messages.at(-1);
    health.noteResumption();
    await environment.settle();

    expect(before).toMatch(/^Suspended/);
    expect(log.messages.slice(-2)).toEqual(['Connected.', END]);
  });

  it('is told of a node that was away then when its votes count', async () => {
    health.noteQuarantine(30_000);
    await comeBackAfter(30_000, 0);

    expect(log.messages.slice(-2)).toEqual(['Connected.', END]);
  });

  it('is not told of a node that comes back to be in quarantine again', async () => {
    health.noteQuarantine(30_000);
    await comeBackAfter(30_000, 30_000);
    const before = [...log.messages];
    await environment.advance(30_000);

    expect(before.slice(-2)).toEqual(['Connected.', BEGIN]);
    expect(log.messages.slice(-2)).toEqual([BEGIN, END]);
  });

  it('is not told of a node that comes back before it', async () => {
    health.noteQuarantine(30_000);
    await comeBackAfter(1, 29_999);
    const before = [...log.messages];
    await environment.advance(29_999);

    expect(before.slice(-2)).toEqual(['closed', 'Connected.']);
    expect(log.messages.slice(-2)).toEqual(['Connected.', END]);
  });

  it('is not told of a node that was silent and answers again before it', async () => {
    health.noteQuarantine(30_000);
    health.noteSuspension(120, 1);
    await environment.advance(29_999);
    health.noteResumption();
    await environment.settle();
    const before = log.messages.at(-1);
    await environment.advance(1);

    expect([before, log.messages.at(-1)]).toEqual(['Connected.', END]);
  });

  it('has come where the next server by the same name counts, as when a name is put right', async () => {
    health.noteQuarantine(30_000);
    await comeBackAfter(1, 0);
    const { quarantineRemaining } = health.status();
    await environment.advance(30_000);

    expect(quarantineRemaining).toBe(0);
    expect(log.messages.slice(1)).toEqual([BEGIN, 'closed', 'Connected.', END]);
  });

  it('is not told of a node that never was in quarantine', async () => {
    health.noteQuarantine(0);
    health.noteSuspension(120, 1);
    health.noteResumption();
    await environment.settle();

    expect(log.messages).not.toContain(END);
  });
});

describe('a quarantine beyond all measure', () => {
  it('has an end that a timer and a date can tell', () => {
    health.noteQuarantine(Number.MAX_SAFE_INTEGER);

    expect(health.status().quarantineRemaining).toBeLessThan(2 ** 31);
  });
});
