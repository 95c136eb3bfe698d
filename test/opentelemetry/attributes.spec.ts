import { describe, expect, it, jest } from '@jest/globals';
import { diag } from '@opentelemetry/api';
import { LockExpiredError, LockTakenError, NoQuorumError, RedlockClosedError } from 'nestjs-locked';

import { lockAttributes, outcomeOf } from '../../lib/opentelemetry/attributes.js';
import type { AcquireMessage } from '../../lib/nest/telemetry.js';
import { afterTest } from '../support/after-test.js';

describe('the outcome of a call for a lock', () => {
  const details = { resources: ['a'], votes: [] };
  const outcomeWith = (error: unknown, isAborted = false) =>
    outcomeOf({ error, isAborted } as AcquireMessage);

  it.each([
    [undefined, 'granted'],
    [new LockTakenError('taken', { ...details, retryAfter: null }), 'taken'],
    [new NoQuorumError('no quorum', details), 'no_quorum'],
    [new LockExpiredError('expired', details), 'expired'],
    [new RedlockClosedError('closed', details), 'closed'],
    [new Error('of the caller'), 'aborted'],
    [Object.assign(new Error('of the caller'), { code: 'LOCK_TAKEN' }), 'aborted'],
  ])('with %p is %s', (error, outcome) => {
    expect(outcomeWith(error)).toBe(outcome);
  });
});

describe('the class of resources', () => {
  const domain = { 'nestjs_locked.domain': 'default' };
  const message = { redlock: 'default', resources: ['a'] };

  it.each([undefined, null, ''])(
    'is left out where the hook gives %p, which is no mistake',
    (nothing) => {
      const complain = jest.spyOn(diag, 'error');
      afterTest(() => complain.mockRestore());

      expect(lockAttributes(message, () => nothing as undefined)).toEqual(domain);
      expect(complain).not.toHaveBeenCalled();
    },
  );
});
