// What the scripts of redis-scripts.ts are called with: their keys and their ARGV.
import type { OwnerRequest, ReleaseRequest, World } from '../core/lock-node.js';

/** What a script is called with after its text or hash: the number of keys, the keys, ARGV. */
export type ScriptArguments = readonly (string | number)[];

/** An operation on a lock: its script's name, and what it is asked. */
export type BatchedOperation =
  | { readonly name: 'acquire' | 'extend'; readonly request: OwnerRequest }
  | { readonly name: 'release'; readonly request: ReleaseRequest };

/** The arguments of the script of one operation. */
export function ownerArguments(
  operation: BatchedOperation,
  isPersistent: boolean,
): ScriptArguments {
  const { world } = operation.request;
  const keys = [certificateKey(world), ...ownerKeys(operation.request)];
  const own = ownArguments(operation);
  return [keys.length, ...keys, ...worldArguments(world, isPersistent), ...own];
}

/** The arguments of `batch`, for operations of one world. */
export function batchArguments(
  world: World,
  operations: readonly BatchedOperation[],
  isPersistent: boolean,
): ScriptArguments {
  const keys = [certificateKey(world)];
  const own: (string | number)[] = [];
  for (const operation of operations) {
    keys.push(...ownerKeys(operation.request));
    own.push(operation.name, ...ownArguments(operation));
  }
  return [keys.length, ...keys, ...worldArguments(world, isPersistent), ...own];
}

/** The arguments of `certify`. */
export function certifyArguments(world: World, isPersistent: boolean): ScriptArguments {
  return [1, certificateKey(world), ...worldArguments(world, isPersistent)];
}

/** The arguments of `inspect`. */
export function inspectArguments(world: World, resource: string): ScriptArguments {
  return [1, world.keyPrefix + resource];
}

// The locks, and with fencing as many fence records.
function ownerKeys({ world, resources }: OwnerRequest): string[] {
  const locks = resources.map((resource) => world.keyPrefix + resource);
  if (!world.fencing) return locks;
  return [...locks, ...resources.map((resource) => fenceKey(world, resource))];
}

function ownArguments(operation: BatchedOperation): (string | number)[] {
  const { ownerId, token, ttl, resources } = operation.request;
  const figure = operation.name === 'release' ? Number(operation.request.wakes) : ttl;
  return [ownerId, token, figure, resources.length];
}

function worldArguments(world: World, isPersistent: boolean): (string | number)[] {
  const retention = world.fencing ? world.fenceRetention : 0;
  return [world.clockSkewMax, retention, world.quarantine, isPersistent ? '1' : '0'];
}

/** Where the releases of a resource are told to those who wait for it. */
export function wakeChannel(world: World, resource: string): string {
  return `${world.keyPrefix}redlock:wake:${resource}`;
}

function fenceKey(world: World, resource: string): string {
  return `${world.keyPrefix}redlock:fence:${resource}`;
}

function certificateKey(world: World): string {
  return `${world.keyPrefix}redlock:node`;
}
