import { wrongType } from '../core/option-checks.js';
import { normalizeResources } from '../core/resources.js';
import type { ExecutionContext } from '@nestjs/common';

/** One resource, or several that are locked all or none. */
export type Resources = string | readonly string[];

/** Names what to lock, from the method's own arguments. */
export type ResourceFunction = (...args: never[]) => Resources;

const contextResource = Symbol.for('nestjs-locked.from-context');

/** What {@link fromContext} returns. */
export interface ContextResource {
  /** Names what to lock, once for each call of the endpoint. */
  readonly [contextResource]: (context: ExecutionContext) => Resources;
}

/** What `@Locked` can be told to lock. */
export type LockedResource = Resources | ResourceFunction | ContextResource;

/**
 * Names the resource of a `@Locked` endpoint from Nest's `ExecutionContext`. The lock is then
 * acquired by the `LockedInterceptor`: after the guards, before the interceptors bound after it,
 * the pipes and the handler. Needs that interceptor, and a call that comes through Nest. Where a
 * method has several `@Locked`, only the uppermost may use it.
 * @example
 * ```ts
 * @Post(':id/pay')
 * @Locked(fromContext((context) => `order:${context.switchToHttp().getRequest().params.id}`))
 * pay(@Param('id') id: string) { … }
 * ```
 * @throws TypeError for anything but a function.
 */
export function fromContext(name: (context: ExecutionContext) => Resources): ContextResource {
  if (typeof name !== 'function') throw wrongType('fromContext', 'given a function', name);
  return Object.freeze({ [contextResource]: name });
}

/** Where the names come from. */
export type ResourceOrigin = 'literal' | 'arguments' | 'context';

/** Tells the kinds of resources apart. */
export function originOf(resource: LockedResource): ResourceOrigin {
  if (typeof resource === 'function') return 'arguments';
  return isContextResource(resource) ? 'context' : 'literal';
}

/**
 * Names what one call locks, and checks the names.
 * @throws TypeError, RangeError for bad names; whatever the naming function throws.
 */
export function nameResources(
  method: string,
  resource: LockedResource,
  call: {
    readonly instance?: unknown;
    readonly args?: readonly unknown[];
    readonly context?: ExecutionContext | undefined;
  },
): readonly string[] {
  if (typeof resource === 'function') {
    const names: unknown = Reflect.apply(resource, call.instance, call.args ?? []);
    return checkMade(names, `the result of ${method}'s resource function`);
  }
  if (!isContextResource(resource)) return normalizeResources(resource, `${method}'s resource`);
  if (call.context === undefined) {
    throw new TypeError(
      `Expected ${method} to be called by Nest with LockedInterceptor on, as its resource ` +
        `comes from the ExecutionContext (fromContext), got a call without one. Where the ` +
        `interceptor needs a setting, docs/CONTEXTS.md of nestjs-locked says so`,
    );
  }
  const names: unknown = resource[contextResource](call.context);
  return checkMade(names, `the result of ${method}'s fromContext function`);
}

// A template makes this of an object, whose id was meant: all calls would lock the same.
function checkMade(names: unknown, origin: string): readonly string[] {
  try {
    const resources = normalizeResources(names, origin);
    if (!resources.some((resource) => resource.includes('[object Object]'))) return resources;
    throw new TypeError(
      `Expected ${origin} to be made of texts and numbers, got an object in a name; ` +
        'put its id there, and tag the template: resource`…`',
    );
  } catch (error) {
    // Node shows ten lines of a stack: with ours on top, the one that called is not among them.
    // Not of what a list throws by itself when it is read: its own lines say more.
    const isOurs = error instanceof Error && error.message.includes(origin);
    if (isOurs) Error.captureStackTrace(error, nameResources);
    throw error;
  }
}

function isContextResource(resource: LockedResource): resource is ContextResource {
  return contextResource in Object(resource);
}
