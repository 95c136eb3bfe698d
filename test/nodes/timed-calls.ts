// The scripts, called at a moment of the caller's choosing on the server of the spec.
import {
  batchArguments,
  ownerArguments,
  type BatchedOperation,
} from '../../lib/nodes/redis-script-arguments.js';
import type { OwnerRequest, World } from '../../lib/core/lock-node.js';
import type { Microseconds } from '../../lib/core/units.js';
import { requestFor, worldOf } from '../support/node-harness.js';
import { client } from '../support/redis-of-spec.js';
import { runAt, TAG } from '../support/scripts-at.js';
import { callsOn } from '../support/server-info.js';

/** The world of the usual calls. */
export const fenced = worldOf();
/** How far a token may be from the clock, in µs. */
export const S = fenced.clockSkewMax * 1_000;
/** How long a period of records is, in µs. */
export const R = fenced.fenceRetention * 1_000;
/** The beginning of an even period. */
export const START = 2 * R * Math.floor((Date.now() * 1_000) / (2 * R));

export function requestOf(world: World, token: Microseconds, resource = 'r'): OwnerRequest {
  return requestFor({ world, resources: [resource], token });
}

export function acquire(now: Microseconds, request: OwnerRequest): Promise<unknown> {
  const args = ownerArguments(TAG, { name: 'acquire', request });
  return runAt(now, 'acquire', args, { of: request.world });
}

export function releaseOf(request: OwnerRequest, wakes: boolean): BatchedOperation {
  return { name: 'release', request: { ...request, wakes }, isListening: false };
}

/** At whatever time: a release asks for none. */
export function release(request: OwnerRequest, wakes = true): Promise<unknown> {
  const args = ownerArguments(TAG, releaseOf(request, wakes));
  return runAt(START, 'release', args, { of: request.world });
}

/** Releases for one owner and acquires for the other, in one call. */
export function handOver(
  now: Microseconds,
  from: OwnerRequest,
  to: OwnerRequest,
  on = client,
): Promise<unknown> {
  const operations = [releaseOf(from, false), { name: 'acquire', request: to } as const];
  return runAt(now, 'batch', batchArguments(TAG, to.world, operations), { on, of: to.world });
}

/** How often which command ran meanwhile. The time is given, not asked for. */
export async function commandsOf(run: () => Promise<unknown>): Promise<Record<string, number>> {
  await client.config('RESETSTAT');
  await run();
  const calls = Object.entries(await callsOn(client));
  return Object.fromEntries(calls.filter(([name]) => !/^(config|eval|info$)/.test(name)));
}
