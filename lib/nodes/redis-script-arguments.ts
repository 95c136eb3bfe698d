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

/** The arguments of the script of one operation. The reply must have the same `tag`. */
export function ownerArguments(tag: number, operation: BatchedOperation): ScriptArguments {
  const { world, ownerId, resources, token } = operation.request;
  const keys = sharedKeys(world);
  for (const resource of resources) keys.push(lockKey(world, resource));
  const own = world.fencing
    ? [ownerId, figureOf(operation), token]
    : [ownerId, figureOf(operation)];
  return [keys.length, ...keys, tag, ...own];
}

/** The arguments of `batch`, for operations of one world. The reply must have the same `tag`. */
export function batchArguments(
  tag: number,
  world: World,
  operations: readonly BatchedOperation[],
): ScriptArguments {
  const keys = sharedKeys(world);
  const runs: Run[] = [];
  for (const operation of operations) {
    const { ownerId, token, resources } = operation.request;
    let run = runs.at(-1);
    if (run === undefined || !isAlike(run.first, operation)) {
      run = { first: operation, owners: [], tokens: [] };
      runs.push(run);
    }
    run.owners.push(ownerId);
    if (world.fencing) run.tokens.push(token);
    for (const resource of resources) keys.push(lockKey(world, resource));
  }
  return [keys.length, ...keys, tag, ...runs.map(textOf)];
}

/**
 * Operations that are alike, one after the other. They are one argument, and what they have in
 * common is said once: the client pays for each argument, more than for what it says.
 */
interface Run {
  readonly first: BatchedOperation;
  readonly owners: string[];
  /** As many as owners with fencing, none without. */
  readonly tokens: number[];
}

// JSON, because a server's Lua reads it faster than it takes a text apart. Nothing needs escaping.
function textOf({ first, owners, tokens }: Run): string {
  const { name, request } = first;
  const common = `"${name}","${figureOf(first)}",${request.resources.length}`;
  return `[${common},${listOf(owners)},${listOf(tokens)}]`;
}

function listOf(words: readonly (string | number)[]): string {
  return words.length === 0 ? '[]' : `["${words.join('","')}"]`;
}

/** The arguments of `certify`: keys of the certificate (with quarantine) and of the rules; N. */
export function certifyArguments(world: World, nodeCount: number): ScriptArguments {
  if (world.quarantine === 0) return [1, rulesKey(world), nodeCount];
  return [2, certificateKey(world), rulesKey(world), nodeCount];
}

/** The arguments of `inspect`: the key of the rules, then those of an acquisition. */
export function inspectArguments(world: World, resource: string): ScriptArguments {
  const keys = [rulesKey(world), ...sharedKeys(world), lockKey(world, resource)];
  return [keys.length, ...keys];
}

// The ttl. For a release instead whether it tells anybody, and whether this process listens too, as
// its script reads it: 0, 1 or 2.
function figureOf(operation: BatchedOperation): number {
  if (operation.name !== 'release') return operation.request.ttl;
  return operation.request.wakes ? 1 + Number(operation.isListening) : 0;
}

/** Whether two nodes are asked the same. */
export function isAskedAlike(one: BatchedOperation, other: BatchedOperation | undefined): boolean {
  return one.request === other?.request && isAlike(one, other);
}

function isAlike(one: BatchedOperation, other: BatchedOperation): boolean {
  return (
    one.name === other.name &&
    one.request.resources.length === other.request.resources.length &&
    figureOf(one) === figureOf(other)
  );
}

/** The channel of all who wait, for whatever resource. No resource has an empty name. */
export function commonWakeChannel(world: World): string {
  return wakeChannel(world, '');
}

/** The channel on which the releases of a resource are told to those who wait for it. */
export function wakeChannel(world: World, resource: string): string {
  return `${world.keyPrefix}redlock:wake:${resource}`;
}

function lockKey(world: World, resource: string): string {
  return world.keyPrefix + resource;
}

/** The keys before those of the locks: the certificate's, then the two of the fence records. */
export function sharedKeys(world: World): string[] {
  const { fencing, keyPrefix, quarantine } = world;
  const keys = quarantine === 0 ? [] : [certificateKey(world)];
  if (fencing) keys.push(`${keyPrefix}redlock:fences:even`, `${keyPrefix}redlock:fences:odd`);
  return keys;
}

function rulesKey({ keyPrefix }: World): string {
  return `${keyPrefix}redlock:rules`;
}

function certificateKey({ keyPrefix }: World): string {
  return `${keyPrefix}redlock:node`;
}
