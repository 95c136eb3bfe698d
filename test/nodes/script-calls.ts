// The scripts, each called by itself on the server of the spec, and what they leave there.
import type { AcquireAnswer, ExtendAnswer, OwnerRequest } from '../../lib/core/lock-node.js';
import {
  readAcquired,
  readCertified,
  readExtended,
  type Certified,
} from '../../lib/nodes/redis-replies.js';
import {
  certifyArguments,
  ownerArguments,
  type ScriptArguments,
} from '../../lib/nodes/redis-script-arguments.js';
import { scriptsOf, type RedisScript } from '../../lib/nodes/redis-scripts.js';
import { worldOf } from '../support/node-harness.js';
import { client } from '../support/redis-of-spec.js';
import { saidIn, TAG } from '../support/scripts-at.js';

/** The key of a node's birth certificate. */
export const CERTIFICATE = 'redlock:node';

/** A world whose nodes have a quarantine. */
export const quarantined = worldOf({ quarantine: true });

function run(script: RedisScript, args: ScriptArguments, on = client): Promise<unknown> {
  return on.call('eval', [script.text, ...args]);
}

export async function acquire(request: OwnerRequest, isPersistent = false): Promise<AcquireAnswer> {
  const script = scriptsOf(request.world, isPersistent).acquire;
  const reply = await run(script, ownerArguments(TAG, { name: 'acquire', request }));
  return readAcquired(saidIn(reply));
}

export async function extend(request: OwnerRequest, on = client): Promise<ExtendAnswer> {
  const script = scriptsOf(request.world, false).extend;
  const reply = await run(script, ownerArguments(TAG, { name: 'extend', request }), on);
  return readExtended(saidIn(reply));
}

export async function release(
  request: OwnerRequest,
  { wakes = true, isListening = false, on = client } = {},
): Promise<unknown> {
  const operation = { name: 'release', request: { ...request, wakes }, isListening } as const;
  const { release: script } = scriptsOf(request.world, false);
  return saidIn(await run(script, ownerArguments(TAG, operation), on));
}

export async function certify(isPersistent = false, on = client): Promise<Certified | null> {
  const script = scriptsOf(quarantined, isPersistent).certify;
  return readCertified(await run(script, certifyArguments(quarantined, 3), on));
}

/** What is on record for the lock with this key. */
export async function fenceOf(key: string, prefix = ''): Promise<string | null> {
  const hashes = ['even', 'odd'].map((parity) => `${prefix}redlock:fences:${parity}`);
  const fences = await Promise.all(hashes.map((hash) => client.hget(hash, key)));
  return fences.find((fence) => fence !== null) ?? null;
}
