// The function that stands in for a `@Locked` method: acquires, runs, and holds until it is done.
import { mergeMap, Observable, type ObservableInput } from 'rxjs';

import { whenAborted } from '../core/abort-listener.js';
import { LockTakenError } from '../core/errors.js';
import { findScope, type EndpointScope } from './endpoint-scope.js';
import { createHold, openHold, runLocked, type Hold } from './lock-hold.js';
import { nameResources, originOf } from './locked-resource.js';
import { holdWhileIterated, holdWhileObserved, holdWhileOngoing } from './locked-result.js';
import { getRedlockToken } from './redlock.tokens.js';
import { isAsyncIterable, isDeferred, isObservable, isOngoing } from './result-checks.js';
import type { Lock } from '../core/lock.js';
import type { LockedDefinition } from './locked-definition.js';
import type { RedlockService } from './redlock.service.js';

/** Any method, as the wrapper sees it. */
export type Method = (this: unknown, ...args: unknown[]) => unknown;

/** What a method returns; decides what its stand-in returns at once, before acquiring. */
export type ResultKind = 'promise' | 'observable' | 'async-generator';

/** Makes the stand-in for `method`: what it does, without its name and metadata. */
export function lockMethod(method: Method, definition: LockedDefinition, kind: ResultKind): Method {
  const run = {
    promise: runPromise,
    observable: runObservable,
    'async-generator': runAsyncGenerator,
  };
  const runKind = run[kind];
  return function (this: unknown, ...args) {
    return runKind(new LockedCall(method, definition, this, args));
  };
}

/**
 * Acquires a method's own lock. Resolves to null where others hold it and `onTaken` has to decide.
 * @throws What `RedlockService.using` throws, except a LockTakenError that `onTaken` deals with.
 */
export async function acquireHold(
  service: RedlockService,
  definition: LockedDefinition,
  resources: readonly string[],
  signal?: AbortSignal,
): Promise<Hold | null> {
  try {
    return await openHold(service, resources, { ...definition.options, signal });
  } catch (error) {
    // No body runs inside openHold, so this is never the error of a lock deeper in the call.
    if (!onTakenDecides(definition, error)) throw error;
    return null;
  }
}

/** Whether `onTaken` decides what becomes of a failed acquisition. */
function onTakenDecides({ onTaken }: LockedDefinition, error: unknown): boolean {
  return onTaken !== 'throw' && error instanceof LockTakenError;
}

/** One call of a `@Locked` method. */
class LockedCall {
  readonly definition: LockedDefinition;
  readonly #method: Method;
  readonly #instance: unknown;
  readonly #args: readonly unknown[];

  constructor(
    method: Method,
    definition: LockedDefinition,
    instance: unknown,
    args: readonly unknown[],
  ) {
    this.#method = method;
    this.definition = definition;
    this.#instance = instance;
    this.#args = args;
  }

  /** The endpoint's scope that awaits this call, and may have a lock for it. */
  awaitingScope(): EndpointScope | undefined {
    const scope = findScope(this.definition);
    return scope?.isAwaiting === true ? scope : undefined;
  }

  /** Gets the lock: the one on loan from the endpoint's scope, or one of its own; null if taken. */
  async enter(signal?: AbortSignal): Promise<Hold | null> {
    const { definition } = this;
    const service = this.#service();
    const scope = this.awaitingScope();
    const acquire = (names: readonly string[]): Promise<Hold | null> =>
      acquireHold(service, definition, names, signal ?? scope?.signal);
    // The interceptor has named these, and asked for them. They are named again only where it found
    // them taken and a retry asks anew.
    if (scope !== undefined && originOf(definition.resource) !== 'arguments') {
      return scope.enter(() => acquire(this.#names()));
    }
    const names = this.#names();
    // A retry may come with other arguments, and then has a lock of its own.
    if (scope?.covers(names) === true) return scope.enter(() => acquire(names));
    return acquire(names);
  }

  /** Runs `body` under a lock of the call's own. */
  using(body: (lock: Lock) => Promise<unknown>): Promise<unknown> {
    const { options } = this.definition;
    return runLocked(this.#service(), this.#names(), options, body);
  }

  /** Runs the method itself. */
  run(): unknown {
    return Reflect.apply(this.#method, this.#instance, this.#args);
  }

  /** Runs the method and awaits it in the same context: a lazy query starts when awaited. */
  readonly result = async (): Promise<unknown> => {
    const outcome = this.run();
    this.assertDeferred(outcome);
    return await outcome;
  };

  /** What the call results in when others hold the lock. */
  resultWhenTaken(): unknown {
    const { onTaken } = this.definition;
    if (typeof onTaken !== 'function') return undefined;
    return Reflect.apply(onTaken, this.#instance, this.#args);
  }

  /** @throws TypeError if the result is that of a synchronous method. */
  assertDeferred(result: unknown): void {
    if (isDeferred(result)) return;
    throw new TypeError(
      `Expected ${this.definition.method} to return a Promise, an Observable, an async ` +
        `iterable or a stream, because it is @Locked, got a result at once: a synchronous ` +
        `method cannot be locked, make it async`,
    );
  }

  #names(): readonly string[] {
    const context = findScope(this.definition)?.context;
    const call = { instance: this.#instance, args: this.#args, context };
    return nameResources(this.definition.method, this.definition.resource, call);
  }

  #service(): RedlockService {
    const instance = this.#instance as Partial<Record<symbol, RedlockService>> | null | undefined;
    const service = instance?.[getRedlockToken(this.definition.domain)];
    // A test double can have any shape.
    if (typeof service?.using === 'function') return service;
    throw new TypeError(
      `Expected ${this.definition.method} to be called on an instance that Nest created from its ` +
        `class, as @Locked gets its RedlockService by injection. Got one from elsewhere (new, ` +
        `useFactory, useValue), one whose constructor has not ended, one whose mock of the ` +
        `service has no using(), or no instance. Register the class as a provider, or create it ` +
        `with ModuleRef.create(), and call the method after its constructor, as in onModuleInit()`,
    );
  }
}

function runPromise(call: LockedCall): Promise<unknown> {
  if (call.awaitingScope()) return runUnderHold(call);
  // The usual way, and the cheapest: the method is the body of `using`. Each function on the way
  // there is one of the ten lines that a stack has until the one that called.
  return new Promise((resolve, reject) => {
    let hasBegun = false;
    const finished = call.using(async (lock) => {
      hasBegun = true;
      const result = await call.result();
      if (!isOngoing(result)) return result;
      // The result outlives the call, and the body has to last as long as the result.
      const { hold, ended } = createHold(lock, () => finished);
      resolve(holdWhileOngoing(result, hold));
      return ended;
    });
    finished
      .catch((error: unknown) => {
        // Once the body has begun, the error may come from a lock deeper in the call.
        if (hasBegun || !onTakenDecides(call.definition, error)) throw error;
        return call.resultWhenTaken();
      })
      .then(resolve, reject);
  });
}

async function runUnderHold(call: LockedCall): Promise<unknown> {
  const hold = await call.enter();
  if (hold === null) return call.resultWhenTaken();
  let result: unknown;
  try {
    // A slow pipe before the method may have outlasted the lock. A mock can have any shape.
    const { lock }: { readonly lock: Partial<Lock> } = hold;
    if (lock.isLost?.() === true) throw hold.lock.lostError();
    result = await hold.run(call.result);
    // Looking at a result may throw: a getter, a proxy, or what only resembles a stream.
    if (isOngoing(result)) return holdWhileOngoing(result, hold);
  } catch (error) {
    await hold.endQuietly();
    throw error;
  }
  await hold.end(result);
  return result;
}

function runObservable(call: LockedCall): Observable<unknown> {
  return enterOnSubscribe(call).pipe(
    mergeMap((hold) => {
      if (hold !== null) return holdWhileObserved(() => observed(call), hold);
      const result = call.resultWhenTaken();
      return isObservable(result) ? result : Promise.resolve(result);
    }),
  );
}

function observed(call: LockedCall): ObservableInput<unknown> {
  const result = call.run();
  call.assertDeferred(result);
  // Declared as an Observable; if it is a promise or the like, its values are what was meant.
  return result as ObservableInput<unknown>;
}

function enterOnSubscribe(call: LockedCall): Observable<Hold | null> {
  return new Observable((subscriber) => {
    const cancel = new AbortController();
    // An endpoint's client may leave without anybody unsubscribing.
    const response = call.awaitingScope()?.signal;
    const stop = response && whenAborted(response, (reason) => cancel.abort(reason));
    call.enter(cancel.signal).then(
      (hold) => {
        // Nobody waits any more: the lock was acquired before the cancellation took effect.
        if (subscriber.closed) return void hold?.endQuietly();
        subscriber.next(hold);
        subscriber.complete();
      },
      (error: unknown) => subscriber.error(error),
    );
    return () => {
      stop?.();
      cancel.abort();
    };
  });
}

// An endpoint's response is read outside its scope, so the scope's lock has to be taken over before
// the first step. Nest awaits what a handler returns, and so learns of a taken lock at once.
function runAsyncGenerator(call: LockedCall): unknown {
  return call.awaitingScope() ? call.enter().then((hold) => steps(call, hold)) : runGenerator(call);
}

async function* runGenerator(call: LockedCall): AsyncGenerator<unknown, unknown> {
  return yield* steps(call, await call.enter());
}

function steps(call: LockedCall, hold: Hold | null): AsyncGenerator<unknown, unknown> {
  if (hold === null) return stepsWhenTaken(call);
  const held = holdWhileIterated(() => call.run() as AsyncIterable<unknown>, hold);
  hold.onOngoing?.(held);
  return held;
}

async function* stepsWhenTaken(call: LockedCall): AsyncGenerator<unknown, unknown> {
  const result = await call.resultWhenTaken();
  return isAsyncIterable(result) ? yield* result : result;
}
