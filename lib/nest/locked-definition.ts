// What one `@Locked` says, checked when the class is defined, so that a mistake ends the start of
// the application and not a call.
import type { Type } from '@nestjs/common';

import { checkBoolean } from '../core/option-checks.js';
import {
  resolveAcquire,
  resolveOptions,
  type RedlockOptions,
  type ResolvedOptions,
  type UsingOptions,
} from '../core/options.js';
import { describe } from '../core/resources.js';
import { nameResources, originOf, type LockedResource } from './locked-resource.js';
import { moduleOptions, placeOption, type PlacedOptions } from './redlock.service.js';
import { checkDomain, defaultDomain } from './redlock.tokens.js';
import type { ReentrantOptions } from './reentry.js';

/** What a method gives instead when others hold its lock. */
export type TakenFunction = (...args: never[]) => unknown;

/** What a `@Locked` method does when others hold its resource. */
export type OnTaken = 'throw' | 'skip' | TakenFunction;

/** Options of `@Locked`. What is left out is as the module has it. */
export interface LockedOptions<Taken extends OnTaken = OnTaken>
  extends Omit<UsingOptions, 'signal'>, ReentrantOptions {
  /**
   * What happens when others hold the resource and `wait` is spent. Only for this method's own
   * acquisition: errors of locks deeper in the call come out as they are.
   * - `'throw'`: the call rejects with the `LockTakenError`.
   * - `'skip'`: the method does not run; the call resolves undefined (an Observable emits
   *   undefined, an async generator ends).
   * - a function: it is called with the method's arguments, and its result is the call's. It runs
   *   without a lock.
   * @default 'throw' – work that was not done should not look done
   */
  readonly onTaken?: Taken;
  /** Which lock domain, where the application has several: `forRoot(nodes, { name })`. */
  readonly redlock?: string;
}

/** One `@Locked`, checked. */
export interface LockedDefinition {
  /** For people: `InventoryService.reserve`. */
  readonly method: string;
  readonly resource: LockedResource;
  readonly domain: string;
  readonly onTaken: OnTaken;
  readonly options: PlacedOptions;
}

const definitionKey = Symbol.for('nestjs-locked.definition');

const methodsKey = Symbol.for('nestjs-locked.methods');

/**
 * The module's options are not known when a class is defined: its methods may ask for what the
 * widest would allow, until they are injected with what the module allows.
 */
const widest: RedlockOptions = {
  ttlMax: 86_400_000,
  maxHold: 2_147_483_647,
  retryDelay: { min: 1, max: 1 },
};

/** @throws TypeError, RangeError naming option, rule, value and method. */
export function createDefinition(
  method: string,
  resource: LockedResource,
  given: number | LockedOptions,
): LockedDefinition {
  if (originOf(resource) === 'literal') nameResources(method, resource, {});
  const { onTaken, domain, using } = inOptionsOf(method, () => readOptions(given));
  const options = Object.freeze({ ...using, [placeOption]: method });
  return Object.freeze({ method, resource, domain, onTaken, options });
}

// Those who check an option do not know that it is one of many methods'.
function inOptionsOf<T>(method: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    const Mistake = error instanceof RangeError ? RangeError : TypeError;
    const message = `${(error as Error).message}, in the options of ${method}`;
    throw new Mistake(message, { cause: error });
  }
}

function readOptions(given: number | LockedOptions) {
  const options = typeof given === 'number' ? { ttl: given } : given;
  if (typeof options !== 'object' || (options as unknown) === null) {
    throw new TypeError(`Expected options to be a ttl in ms or an object, got ${describe(given)}`);
  }
  const { onTaken = 'throw', redlock: domain = defaultDomain, ...using } = options;
  checkDomain(domain);
  if (onTaken !== 'throw' && onTaken !== 'skip' && typeof onTaken !== 'function') {
    throw new TypeError(
      `Expected onTaken to be 'throw', 'skip' or a function, got ${describe(onTaken)}`,
    );
  }
  checkBoolean('reentrant', using.reentrant ?? false);
  resolveAcquire(resolveOptions(widest, 1), 'using', using.ttl, using);
  return { onTaken, domain, using };
}

/**
 * Makes a definition findable: on the function that locks by it, and by where the class has it.
 * @throws TypeError above another `@Locked` that takes its resource from the context.
 */
export function attachDefinition(
  method: object,
  definition: LockedDefinition,
  target: object,
  key: string | symbol,
): void {
  const below: unknown = Reflect.getOwnMetadata(definitionKey, target, key);
  if (below !== undefined && originOf((below as LockedDefinition).resource) === 'context') {
    throw new TypeError(
      `Expected fromContext on the uppermost @Locked of ${definition.method}, got it below ` +
        `another: LockedInterceptor acquires what the uppermost one names`,
    );
  }
  Reflect.defineMetadata(definitionKey, definition, method);
  Reflect.defineMetadata(definitionKey, definition, target, key);
  const methods = new Map([...methodsOf(target), [key, definition]]);
  Reflect.defineMetadata(methodsKey, methods, target);
}

/**
 * Checks what the methods of an object ask `service` for by what its module allows.
 * @throws TypeError, RangeError naming option, rule, value and method.
 */
export function checkMethods(instance: object, domain: string, service: unknown): void {
  const { [moduleOptions]: allowed } = Object(service) as { [moduleOptions]?: ResolvedOptions };
  // What a test puts in its place has any type, and of a mock each property may be a mock.
  if (typeof allowed !== 'object') return;
  for (const { method, domain: theirs, options } of methodsOf(instance).values()) {
    if (theirs !== domain) continue;
    inOptionsOf(method, () => resolveAcquire(allowed, 'using', options.ttl, options));
  }
}

type Definitions = ReadonlyMap<string | symbol, LockedDefinition>;

function methodsOf(target: object): Definitions {
  return (Reflect.getMetadata(methodsKey, target) as Definitions | undefined) ?? new Map();
}

/** By function, what `definitionOf` has found: an endpoint is asked for at each call. */
const definitions = new WeakMap<object, LockedDefinition | undefined>();

/**
 * The definition by which a method of `type` locks, also where another decorator has wrapped it and
 * kept none of its metadata; undefined where it is not `@Locked`.
 */
export function definitionOf(method: object, type: Type): LockedDefinition | undefined {
  if (!definitions.has(method)) definitions.set(method, findDefinition(method, type));
  return definitions.get(method);
}

function findDefinition(method: object, type: Type): LockedDefinition | undefined {
  const own: unknown = Reflect.getMetadata(definitionKey, method);
  if (own !== undefined) return own as LockedDefinition;
  let owner: object | null = type.prototype as object;
  while (owner !== null) {
    // An override has no definition of its own, whatever it overrides.
    for (const [key, { value }] of Object.entries(Object.getOwnPropertyDescriptors(owner))) {
      if (value !== method) continue;
      return Reflect.getOwnMetadata(definitionKey, owner, key) as LockedDefinition | undefined;
    }
    owner = Reflect.getPrototypeOf(owner);
  }
  return undefined;
}
