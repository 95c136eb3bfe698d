import { describe, expect, it } from '@jest/globals';

import type { FailedAnswer } from '../../lib/core/lock-node.js';
import { outcomeOfError } from '../../lib/nodes/redis-outcomes.js';

function outcomeWith(traits: Partial<FailedAnswer>, message: string): FailedAnswer {
  return { vote: 'failed', mayHold: false, isMisconfiguration: false, ...traits, message };
}

describe('an error reply (PROTOCOL section 11)', () => {
  it.each([
    'NOSCRIPT No matching script. Please use EVAL.',
    "READONLY You can't write against a read only replica.",
    'LOADING Redis is loading the dataset in memory',
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    'NOREPLICAS Not enough good replicas to write.',
    'MISCONF Redis is configured to save RDB snapshots',
    "OOM command not allowed when used memory > 'maxmemory'. script: x, on @user_script:1.",
    'BUSY Redis is busy running a script.',
    'TRYAGAIN Multiple keys request during rehashing of slot',
    'CLUSTERDOWN The cluster is down',
  ])('leaves no key, and may pass: %s', (message) => {
    expect(outcomeOfError(message)).toEqual(outcomeWith({}, message));
  });

  it.each([
    'NOAUTH Authentication required.',
    'WRONGPASS invalid username-password pair or user is disabled.',
    "NOPERM this user has no permissions to run the 'evalsha' command",
    'MOVED 3999 127.0.0.1:6381',
    'ASK 3999 127.0.0.1:6381',
    "CROSSSLOT Keys in request don't hash to the same slot",
    'WRONGTYPE Operation against a key holding the wrong kind of value',
    "ERR unknown command 'EVALSHA', with args beginning with: ",
    'ERR DB index is out of range',
    'ERR invalid DB index',
  ])('leaves no key, and stays until somebody acts: %s', (message) => {
    expect(outcomeOfError(message)).toEqual(outcomeWith({ isMisconfiguration: true }, message));
  });

  it.each([
    'ERR Unknown Redis command called from script script: x, on @user_script:1.',
    "ERR The user executing the script can't run this command or subcommand script: x",
    "ERR ACL failure in script: User u has no permissions to run the 'set' command script: x",
  ])('may have left a key, and stays until somebody acts: %s', (message) => {
    expect(outcomeOfError(message)).toEqual(
      outcomeWith({ mayHold: true, isMisconfiguration: true }, message),
    );
  });

  it.each([
    ["READONLY You can't write against a read only replica.", {}],
    ["OOM command not allowed when used memory > 'maxmemory'.", {}],
    [
      "The user executing the script can't access at least one of the keys",
      { mayHold: true, isMisconfiguration: true },
    ],
  ])('that Redis 6 put in one of the script means the same: %s', (message, traits) => {
    const inCall = `@user_script: 1: ${message.replace(/^(?=READONLY|OOM)/, '-')}`;
    const inScript = `ERR Error running script (call to f_0): @user_script:1: ${inCall}`;

    for (const reply of [message, inCall, inScript]) {
      expect(outcomeOfError(reply)).toEqual(outcomeWith(traits, message));
    }
  });

  it('is one line without what governs a terminal, and not endless', () => {
    const { message } = outcomeOfError(`OOM \u001b[2J\r\nnot\u009b ${'x'.repeat(1_000_000)}`);

    expect(message).toMatch(/^OOM {2}\[2J not {2}x+$/);
    expect(message.length).toBeLessThanOrEqual(500);
  });

  it('from different places of scripts is the same', () => {
    const message = "ERR The user executing the script can't run this command or subcommand";
    const places = [
      `${'0a'.repeat(20)}, on @user_script:7.`,
      `${'9f'.repeat(20)}, on @user_script:52.`,
    ];

    for (const place of places) {
      expect(outcomeOfError(`${message} script: ${place}`).message).toBe(message);
    }
  });

  it('of a key of another type stays until somebody acts, in Redis 6 too', () => {
    const message = 'WRONGTYPE Operation against a key holding the wrong kind of value';
    const reply = `ERR Error running script (call to f_0): @user_script:1: ${message}`;

    expect(outcomeOfError(reply)).toEqual(outcomeWith({ isMisconfiguration: true }, message));
  });

  it.each(['something new', 'EXECABORT Transaction discarded', 'READONLYISH something new', ''])(
    'may have left a key: %s',
    (message) => {
      expect(outcomeOfError(message)).toEqual(outcomeWith({ mayHold: true }, message));
    },
  );
});
