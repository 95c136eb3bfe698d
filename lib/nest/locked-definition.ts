// What one `@Locked` says, checked when the class is defined: a mistake stops the application from
// starting, instead of failing a call later.
import type { Type } from '@nestjs/common';

import { checkBoolean, checkNames, isObject, membersOf, wrongType } from '../core/option-checks.js';
import {
  DELAY_MAX,
  resolveAcquire,
  resolveOptions,
  TTL_MAX_HIGHEST,
  type RedlockOptions,
  type ResolvedOptions,
  type UsingOptions,
} from '../core/options.js';
import { nameResources, originOf, type LockedResource } from './locked-resource.js';
import { moduleOptions, placeOption, type PlacedOptions } from './redlock.service.js';
import { checkDomain, defaultDomain } from './redlock.tokens.js';
import type { ReentrantOptions } from './reentry.js';

/** A fallback that runs in place of a method when others hold its lock. */
export type TakenFunction = (...args: never[]) => unknown;

/** What a `@Locked` method does when others hold its resource. */
export type OnTaken = 'throw' | 'skip' | TakenFunction;

/** Options of `@Locked`. Where one is left out, the module's applies. */
export interface LockedOptions<Taken extends OnTaken = OnTaken>
  extends Omit<UsingOptions, 'signal'>, ReentrantOptions {
  /**
   * What happens when others hold the resource and `wait` is spent. Only for this method's own
   * acquisition: errors of locks deeper in the call come out as they are.
   * - `'throw'`: the call rejects with the `LockTakenError`.
   * - `'skip'`: the method does not run; the call resolves to undefined (an Observable emits
   *   undefined, an async generator ends).
   * - a function: it is called on the instance with the method's arguments, and its result is the
   *   call's. It runs without a lock.
   * @default 'throw' – work that was not done should not look done
   */
  readonly onTaken?: Taken | undefined;
  /**
   * The lock domain to use, if the application has several: `forRoot(nodes, { name })`.
   * @default the one without a name
   */
  readonly redlock?: string | undefined;
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

/** All {@link LockedOptions} there are. */
const LOCKED_OPTIONS: Readonly<Record<keyof LockedOptions, true>> = {
  ttl: true,
  wait: true,
  retryDelay: true,
  watchdog: true,
  maxHold: true,
  holdAtLeast: true,
  reentrant: true,
  onTaken: true,
  redlock: true,
};

const definitionKey = Symbol.for('nestjs-locked.definition');

const methodsKey = Symbol.for('nestjs-locked.methods');

/**
 * The widest options that a module can have. The real ones are not known when a class is defined:
 * its methods are checked against these first, and against the module's once that is injected.
 */
const widest: RedlockOptions = {
  ttlMax: TTL_MAX_HIGHEST,
  maxHold: DELAY_MAX,
  retryDelay: { min: 1 },
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

// The checks do not know whose options they see, so the method is named here.
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
  if (!isObject(options) || Array.isArray(options)) {
    throw wrongType('options', 'a ttl in ms or an object', given);
  }
  type Given = LockedOptions & Pick<UsingOptions, 'signal'>;
  const { signal, ...members } = membersOf<Given>('options', options);
  // An endpoint's call has a signal of its own, so another one would have no effect.
  if (signal !== undefined) throw wrongType('signal', 'left out', signal);
  checkNames('only options of LockedOptions', members, LOCKED_OPTIONS);
  const { onTaken = 'throw', redlock: domain = defaultDomain, ...using } = members;
  const { reentrant = false } = using;
  checkDomain(domain);
  if (onTaken !== 'throw' && onTaken !== 'skip' && typeof onTaken !== 'function') {
    throw wrongType('onTaken', "'throw', 'skip' or a function", onTaken);
  }
  checkBoolean('reentrant', reentrant);
  resolveAcquire(resolveOptions(widest, 1), 'using', using.ttl, using);
  return { onTaken, domain, using };
}

/**
 * Makes a definition findable: by the function that locks, and by its key in the class.
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
 * Checks the options of the `@Locked` methods of a class, by the prototype or an instance, against
 * what the module of `service` allows.
 * @throws TypeError, RangeError naming option, rule, value and method.
 */
export function checkMethods(target: object, domain: string, service: unknown): void {
  const { [moduleOptions]: allowed } = Object(service) as { [moduleOptions]?: ResolvedOptions };
  // A test double can have any shape, and each property of a mock may itself be a mock.
  if (typeof allowed !== 'object') return;
  for (const { method, domain: theirs, options } of methodsOf(target).values()) {
    if (theirs !== domain) continue;
    inOptionsOf(method, () => resolveAcquire(allowed, 'using', options.ttl, options));
  }
}

type Definitions = ReadonlyMap<string | symbol, LockedDefinition>;

/** The `@Locked` methods of a class, by the prototype or an instance, with those it inherits. */
export function methodsOf(target: object): Definitions {
  return (Reflect.getMetadata(methodsKey, target) as Definitions | undefined) ?? new Map();
}

/** What `definitionOf` has found, by function: every call of an endpoint asks for it. */
const definitions = new WeakMap<object, LockedDefinition | undefined>();

/**
 * Finds the definition by which a method of `type` locks, even if another decorator has wrapped it
 * and kept none of its metadata, or the constructor has bound it. Undefined if the method is not
 * `@Locked`.
 */
export function definitionOf(method: object, type: Type): LockedDefinition | undefined {
  if (!definitions.has(method)) definitions.set(method, findDefinition(method, type));
  return definitions.get(method);
}

/** The key of a method that a constructor has bound: all that a bound function has of it. */
export function boundKeyOf(method: object): string | undefined {
  return /^(?:bound )+(.+)/.exec(String(Reflect.get(method, 'name')))?.[1];
}

function findDefinition(method: object, type: Type): LockedDefinition | undefined {
  const own: unknown = Reflect.getMetadata(definitionKey, method);
  if (own !== undefined) return own as LockedDefinition;
  const boundKey = boundKeyOf(method);
  // A proxy that wraps all that is a function has no class: its constructor has no prototype.
  let owner = type.prototype as object | null | undefined;
  while (owner) {
    // Own metadata only: an override does not inherit the definition of what it overrides.
    for (const [key, { value }] of Object.entries(Object.getOwnPropertyDescriptors(owner))) {
      if (value !== method && key !== boundKey) continue;
      return Reflect.getOwnMetadata(definitionKey, owner, key) as LockedDefinition | undefined;
    }
    owner = Reflect.getPrototypeOf(owner);
  }
  return undefined;
}
