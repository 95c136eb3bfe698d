// What the scripts of redis-scripts.ts are called with: their keys and their ARGV.
import type { OwnerRequest, ReleaseRequest, World } from '../core/lock-node.js';

/** What a script is called with after its text or hash: the number of keys, the keys, ARGV. */
export type ScriptArguments = readonly (string | number)[];

/** An operation on a lock: its script's name, and what it is asked. */
export type BatchedOperation =
  | { readonly name: 'acquire' | 'extend'; readonly request: OwnerRequest }
  | {
      readonly name: 'release';
      readonly request: ReleaseRequest;
      /** Whether the process that releases listens for it too. */
      readonly isListening: boolean;
    };

/** The arguments of the script of one operation. */
export function ownerArguments(
  operation: BatchedOperation,
  isPersistent: boolean,
): ScriptArguments {
  const { world } = operation.request;
  const { ownerId, token, resources } = operation.request;
  const keys = [certificateKey(world), ...ownerKeys(operation.request)];
  const own = [ownerId, token, figureOf(operation), resources.length];
  return [keys.length, ...keys, ...worldArguments(world, isPersistent), ...own];
}

/** The arguments of `batch`, for operations of one world. */
export function batchArguments(
  world: World,
  operations: readonly BatchedOperation[],
  isPersistent: boolean,
): ScriptArguments {
  const keys = [certificateKey(world)];
  const own = worldArguments(world, isPersistent);
  // What operations that follow each other have in common is said once, and what they have not is
  // one argument: the client pays for each argument, more than for what it says.
  let run: BatchedOperation | null = null;
  let owners: (string | number)[] = [];
  const endRun = (): void => {
    if (owners.length > 0) own.push(owners.join(' '));
    owners = [];
  };
  for (const operation of operations) {
    const { ownerId, token, resources } = operation.request;
    if (run === null || !isAlike(run, operation)) {
      endRun();
      run = operation;
      own.push(operation.name, figureOf(operation), resources.length);
    }
    owners.push(ownerId);
    for (const resource of resources) keys.push(world.keyPrefix + resource);
    if (!world.fencing) continue;
    owners.push(token);
    for (const resource of resources) keys.push(fenceKey(world, resource));
  }
  endRun();
  return [keys.length, ...keys, ...own];
}

/** The arguments of `certify`. */
export function certifyArguments(world: World, isPersistent: boolean): ScriptArguments {
  const rules = world.quarantine === 0 ? [] : [`${world.keyPrefix}redlock:rules`];
  const keys = [certificateKey(world), ...rules];
  return [keys.length, ...keys, ...worldArguments(world, isPersistent)];
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

function figureOf(operation: BatchedOperation): number {
  if (operation.name !== 'release') return operation.request.ttl;
  return operation.request.wakes ? 1 + Number(operation.isListening) : 0;
}

function isAlike(one: BatchedOperation, other: BatchedOperation): boolean {
  return (
    one.name === other.name &&
    one.request.resources.length === other.request.resources.length &&
    figureOf(one) === figureOf(other)
  );
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
