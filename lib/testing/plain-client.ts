import type { OwnerRequest, World } from '../core/lock-node.js';
import { checkNumber, checkText } from '../core/option-checks.js';
import type { Milliseconds } from '../core/units.js';

/** How a client of the plain Redlock text sees a node: no prefix, no tokens. */
export const plainWorld: World = {
  keyPrefix: '',
  fencing: false,
  clockSkewMax: 2_000,
  fenceRetention: 10_000,
  quarantine: 0,
};

/** What such a client asks a node for. @throws TypeError, RangeError naming what is wrong. */
export function plainRequest(key: string, ttl: Milliseconds, ownerId: string): OwnerRequest {
  checkText('key', key);
  // With 0 or NaN nothing would be held, and a test would show that the application copes.
  checkNumber('ttl', ttl, 1, Infinity);
  checkText('ownerId', ownerId);
  return { world: plainWorld, resources: [key], ownerId, token: 0, ttl };
}
