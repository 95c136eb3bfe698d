import { Inject, type StreamableFile } from '@nestjs/common';
import type { Observable } from 'rxjs';

import { isObject } from '../core/option-checks.js';
import {
  attachDefinition,
  checkMethods,
  createDefinition,
  type LockedOptions,
  type OnTaken,
} from './locked-definition.js';
import { lockMethod, type Method, type ResultKind } from './locked-method.js';
import { getRedlockToken } from './redlock.tokens.js';
import { makesObservables } from './result-checks.js';
import { warnOfRepeatedRuns } from './scheduled-methods.js';
import type { LockedResource } from './locked-resource.js';
import type { Milliseconds } from '../core/units.js';

type AnyMethod = (...args: never[]) => unknown;
// `never`: a generator may be sent anything. To TypeScript before 5.6, AsyncIterable means one that
// is sent nothing.
type AnyAsyncGenerator = AsyncGenerator<unknown, unknown, never>;
type Deferred =
  | PromiseLike<unknown>
  | Observable<unknown>
  | AsyncIterable<unknown>
  | AnyAsyncGenerator
  | StreamableFile;
type Problem<Text extends string> = Readonly<Record<'nestjs-locked', Text>>;
// A check that depends on a class's type parameters passes: inside a function type it does not keep
// the compiler from deciding now. `Target` makes the check wait until the method is known.
type ProblemUnless<Fits, Target, Text extends string> = [Target, () => Fits] extends [
  AnyMethod,
  () => false,
]
  ? Problem<Text>
  : unknown;

// Each check is `unknown`, which an intersection swallows, or a Problem, which no descriptor has.
type CheckResult<Target extends AnyMethod> =
  ReturnType<Target> extends Deferred
    ? unknown
    : Problem<'a @Locked method returns a Promise, an Observable, an AsyncIterable or a stream'>;
type CheckIterable<Target extends AnyMethod> = ProblemUnless<
  [ExtraMembers<Awaited<ReturnType<Target>>>] extends [never] ? true : false,
  Target,
  'an AsyncIterable that a @Locked method returns comes out as an AsyncGenerator: declare it as one'
>;
// What async iterables in `Result` have beyond a generator's members; streams come out as they are.
type ExtraMembers<Result> = unknown extends Result
  ? never
  : Result extends { readonly pipe: unknown } | { readonly pipeTo: unknown }
    ? never
    : Result extends AsyncIterable<unknown>
      ? Exclude<keyof Result, keyof AsyncGenerator>
      : never;
type CheckArguments<Callback, Target extends AnyMethod> = [Callback] extends [AnyMethod]
  ? ProblemUnless<
      [Callback] extends [(...args: Parameters<Target>) => unknown] ? true : false,
      Target,
      'the parameters of this function have no types, or not those of the @Locked method'
    >
  : unknown;
type CheckTaken<Taken, Target extends AnyMethod> = [Taken] extends [AnyMethod]
  ? (() => ReturnType<Taken>) extends () => ReturnType<Target> | Awaited<ReturnType<Target>>
    ? unknown
    : Problem<'onTaken returns another type than the @Locked method (literals may want `as const`)'>
  : MaySkip<Taken> extends true
    ? (() => undefined) extends () => Skipped<ReturnType<Target>>
      ? unknown
      : Problem<"with onTaken 'skip' the return type of a @Locked method includes undefined">
    : unknown;
// Not if nothing is known, as of options that are declared as LockedOptions.
type MaySkip<Taken> = [OnTaken] extends [Taken] ? false : 'skip' extends Taken ? true : false;
// Where the undefined of a skipped method appears.
type Skipped<Result> =
  Result extends Observable<infer Value>
    ? Value
    : Result extends AsyncGenerator<unknown, infer Value, never>
      ? Value
      : Awaited<Result>;

/** What {@link Locked} returns: a decorator for methods that fit the resource and `onTaken`. */
export type LockedDecorator<Resource, Taken> = <Target extends AnyMethod>(
  target: object,
  key: string | symbol,
  descriptor: TypedPropertyDescriptor<Target> &
    CheckResult<Target> &
    CheckIterable<Target> &
    CheckArguments<Resource, Target> &
    CheckArguments<Taken, Target> &
    CheckTaken<Taken, Target>,
) => void;

/**
 * Locks a method: across all replicas of the application, one call for a resource runs at a time.
 * For providers, controllers, resolvers, gateways, message handlers, `@Cron` and queue jobs. Put it
 * above or below Nest's other decorators, but above one that opens a transaction.
 *
 * The lock lasts, extended by the watchdog, until what the method returns has settled; with an
 * Observable, async iterable or stream, until that has ended, failed or been dropped. On an
 * endpoint it lasts until the whole response is done; with `@Res()`, until the handler is done,
 * which should `await pipeline(…)` rather than pipe.
 *
 * A method declared to return an Observable returns one that acquires on subscription, an async
 * generator returns one that acquires on its first step, and any other method returns a Promise,
 * whatever its type says. So declare `: Observable<…>` itself, not an alias or subclass, and do not
 * import it with `import type`; compile with `emitDecoratorMetadata` and for ES2018 or later; and
 * make methods that return another iterable or a stream `async`. An async iterable that the Promise
 * resolves to comes out as an async generator, without its other members: instead of a page object
 * return its data.
 *
 * A call inside a body that already holds the resource is refused (see `reentrant`). The body of a
 * `for await` over a locked iterable is outside: a call there waits for the loop to end.
 * @typeParam Resource Inferred from `resource`, and compared with the method's parameters.
 * @typeParam Taken Inferred from `onTaken`, and compared with what the method returns.
 * @param resource What to lock: a name, several (all or none), a function of the method's
 *   arguments that returns either, or {@link fromContext}.
 * @param options Lifetime given to the nodes in ms, or options.
 * @throws TypeError, RangeError when the class is defined: for a bad name or option, and on
 *   anything but a method that can be locked. An option that the module does not allow, such as a
 *   ttl above `ttlMax`, stops the application from starting.
 * @example
 * ```ts
 * @Locked((sku: string) => `sku:${sku}`, seconds(5))
 * async reserve(sku: string, count: number): Promise<void> { … }
 *
 * @Cron('0 3 * * *')
 * @Locked('nightly-report', { wait: 0, onTaken: 'skip', holdAtLeast: minutes(1) })
 * async report(): Promise<void> { … }
 * ```
 */
export function Locked<
  const Resource extends LockedResource,
  // Where inference starts if it looks at a fallback late, as TypeScript before 6 does at one that
  // is written as a method or as a `function`. Without a function type here such fallbacks are
  // refused; without the literals, 'busy' is taken for any string.
  const Taken extends OnTaken = 'throw' | ((...args: never[]) => '' | 0 | 0n | false),
>(
  resource: Resource,
  options: Milliseconds | LockedOptions<Taken> = {},
): LockedDecorator<Resource, Taken> {
  assertCalled(resource, options);
  return (target: object, key: string | symbol, descriptor: PropertyDescriptor | undefined) => {
    const name = nameOf(target, key);
    assertMethod(name, descriptor);
    const method = descriptor.value;
    const kind = kindOf(name, method, target, key);
    const definition = createDefinition(name, resource, options);
    const wrapper = lockMethod(method, definition, kind);
    copyIdentity(method, wrapper);
    attachDefinition(wrapper, definition, target, key);
    injectService(target, definition.domain);
    descriptor.value = wrapper;
  };
}

// Without parentheses the compiler passes it the class and the key, and what it returns decorates
// nothing: the method would run without a lock.
function assertCalled(target: unknown, key: unknown): void {
  const isClass = typeof target === 'function' && 'prototype' in target;
  const isKey = typeof key === 'string' || typeof key === 'symbol';
  const isPlace = isKey && (isClass || (isObject(target) && !Array.isArray(target)));
  const isContext = typeof target === 'function' && isObject(key) && 'kind' in key;
  if (!isPlace && !isContext) return;
  throw new TypeError(
    `Expected @Locked to be told what to lock, as in @Locked('report'), got it without ` +
      `parentheses on ${nameOf(target, key as string | symbol | DecoratorContext)}`,
  );
}

function nameOf(target: object, key: string | symbol | DecoratorContext | undefined): string {
  // A standard decorator gets the value, and a context object in place of the key.
  if (typeof key === 'object') {
    throw new TypeError(
      'Expected @Locked to be compiled with experimentalDecorators, as Nest needs it, got a ' +
        'standard decorator',
    );
  }
  const method = String(key);
  if (typeof target !== 'function') return `${target.constructor.name}.${method}`;
  const what = key === undefined ? `the class ${target.name}` : `static ${target.name}.${method}`;
  throw new TypeError(`Expected @Locked to decorate an instance method, got ${what}`);
}

function assertMethod(
  name: string,
  descriptor: PropertyDescriptor | undefined,
): asserts descriptor is TypedPropertyDescriptor<Method> & { value: Method } {
  if (typeof descriptor?.value === 'function') return;
  const kind = (descriptor?.get ?? descriptor?.set) ? 'accessor' : 'property';
  throw new TypeError(`Expected @Locked to decorate a method, got the ${kind} ${name}`);
}

/** What the method returns, as far as that is known before it runs. */
function kindOf(name: string, method: Method, target: object, key: string | symbol): ResultKind {
  const tag: unknown = Reflect.get(method, Symbol.toStringTag);
  if (tag === 'AsyncGeneratorFunction') return 'async-generator';
  const returned: unknown = Reflect.getOwnMetadata('design:returntype', target, key);
  if (tag === 'GeneratorFunction' || synchronousTypes.includes(returned)) {
    const what = typeof returned === 'function' ? returned.name : 'a generator';
    throw new TypeError(
      `Expected ${name} to return a Promise, an Observable, an async iterable or a stream, as it ` +
        `is @Locked, got a synchronous method (${what}): make it async`,
    );
  }
  const isObservable = typeof returned === 'function' && makesObservables(returned.prototype);
  return isObservable ? 'observable' : 'promise';
}

// The metadata that TypeScript emits for declared types that certainly cannot be locked.
const synchronousTypes: readonly unknown[] = [String, Number, Boolean, BigInt, Symbol, Array];

/**
 * Other decorators keep their metadata on the function itself, and those below `@Locked` have done
 * so already. Without the copy, routes vanish, and role guards find no roles and let everybody in.
 */
function copyIdentity(method: Method, wrapper: Method): void {
  for (const metadataKey of Reflect.getOwnMetadataKeys(method)) {
    const value: unknown = Reflect.getOwnMetadata(metadataKey, method);
    Reflect.defineMetadata(metadataKey, value, wrapper);
  }
  // The tag marks an async generator, for a second @Locked above this one.
  for (const property of ['name', 'length', Symbol.toStringTag] as const) {
    const value: unknown = Reflect.get(method, property);
    Object.defineProperty(wrapper, property, { value, configurable: true });
  }
}

/**
 * Makes Nest inject the service into every instance of the class, and refuse to start without it or
 * with options that its module does not allow. An accessor, so that the instance is looked at when
 * it is made, and Nest's assignment adds no enumerable property.
 */
function injectService(target: object, domain: string): void {
  const token = getRedlockToken(domain);
  Inject(token)(target, token);
  if (token in target) return;
  Object.defineProperty(target, token, {
    configurable: true,
    set(this: object, service: unknown) {
      checkMethods(this, domain, service);
      warnOfRepeatedRuns(this);
      Object.defineProperty(this, token, { value: service, configurable: true, writable: true });
    },
  });
}
