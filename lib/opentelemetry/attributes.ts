// The attributes by which metrics and spans describe locks. A metric never has the resource's name
// as an attribute: there is no bound to the number of names, and each would be a time series.
import { diag, type Attributes } from '@opentelemetry/api';

import { RedlockError, type RedlockErrorCode } from '../core/errors.js';
import { wrongType } from '../core/option-checks.js';
import type { AcquireMessage } from '../nest/telemetry.js';

/** Name of the instrumentation scope; with an underscore, also the prefix of all names. */
export const scopeName = 'nestjs-locked';

/** Maps a resource to the class that metrics and spans name instead of it. */
export type ResourceClass = (resource: string) => string | undefined;

/** The outcome of a call for a lock, in one word. */
export type AcquireOutcome = 'granted' | 'taken' | 'no_quorum' | 'expired' | 'closed' | 'aborted';

/** What every message about a lock has. */
export interface LockMessage {
  readonly redlock: string;
  readonly resources: readonly string[];
}

/** The attributes that metrics and spans share: few values, whatever is locked. */
export function lockAttributes(
  { redlock, resources }: LockMessage,
  resourceClass: ResourceClass | undefined,
): Attributes {
  const domain = { 'nestjs_locked.domain': redlock };
  if (resourceClass === undefined) return domain;
  const name = classOf(resources, resourceClass);
  return name === '' ? domain : { ...domain, 'nestjs_locked.resource.class': name };
}

/** The outcome of a call for a lock, told by the error it was refused with. */
export function outcomeOf({ error, isAborted }: AcquireMessage): AcquireOutcome {
  if (error === undefined) return 'granted';
  if (isAborted || !(error instanceof RedlockError)) return 'aborted';
  return outcomes[error.code] ?? 'aborted';
}

/** Why a lock was lost, spelt as attribute values are, in snake case. */
export function lossReasonOf(reason: string): string {
  return reason.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

const outcomes: Partial<Record<RedlockErrorCode, AcquireOutcome>> = {
  LOCK_TAKEN: 'taken',
  NO_QUORUM: 'no_quorum',
  LOCK_EXPIRED: 'expired',
  REDLOCK_CLOSED: 'closed',
};

function classOf(resources: readonly string[], resourceClass: ResourceClass): string {
  try {
    const classes = resources.map((resource) => checkClass(resourceClass(resource)));
    return [...new Set(classes.filter((name) => name !== ''))].sort().join('+');
  } catch (error) {
    // It runs inside a diagnostics channel, where an exception would end the process.
    diag.error('nestjs-locked: resourceClass failed, so a lock is reported without a class', error);
    return '';
  }
}

function checkClass(name: unknown): string {
  if (typeof name === 'string') return name;
  if (name == null) return '';
  throw wrongType('the result of resourceClass', 'a string or undefined', name);
}
