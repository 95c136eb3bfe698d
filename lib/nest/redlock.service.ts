import type { LockedBody, Redlock, RedlockStatus } from '../core/redlock.js';
import { heldBy, runHolding } from './lock-context.js';
import { findJoinable, type Caller, type ReentrantOptions } from './reentry.js';
import type { ResourceState } from '../core/inspection.js';
import type { Lock } from '../core/lock.js';
import { checkBoolean, checkObject, isObject, wrongType } from '../core/option-checks.js';
import type { AcquireOptions, UsingOptions } from '../core/options.js';
import type { Milliseconds } from '../core/units.js';

/**
 * Names the acquisition in errors, in place of `RedlockService.using`. Set by `@Locked`.
 * @internal
 */
export const placeOption = Symbol.for('nestjs-locked.place');

/**
 * Where a service has the options of its module, so that `@Locked` can check its own against them.
 * @internal
 */
export const moduleOptions = Symbol.for('nestjs-locked.module-options');

/** @internal Options of `using`, and the name of the caller. */
export interface PlacedOptions extends UsingOptions, ReentrantOptions {
  readonly [placeOption]?: string;
}

/**
 * Locks by hand. Inject it by its class; for further lock domains use `@InjectRedlock(name)`.
 * It knows the async context: acquiring what the context already holds is refused at once, or
 * joins the held lock (`reentrant`).
 */
export class RedlockService {
  readonly #redlock: Redlock;
  readonly #isReentrant: boolean;

  /** @internal Made by `RedlockModule`. @throws TypeError where it was not. */
  constructor(redlock: Redlock, options: ReentrantOptions = {}) {
    // A module that lists this class among its providers makes Nest construct it with nothing
    // injected. A test double that extends the class needs nothing.
    if (new.target === RedlockService) checkOrigin(redlock);
    const { options: value } = (redlock as Redlock | undefined) ?? {};
    Object.defineProperty(this, moduleOptions, { value });
    this.#redlock = redlock;
    this.#isReentrant = options.reentrant ?? false;
  }

  /**
   * Locks all of `resources` or none, for `ttl` ms (whole, 100 to `ttlMax`; by default the
   * module's), and waits for them up to `wait`. The lock is extended only if `watchdog` says so.
   * Release it, best by `await using`.
   *
   * The async context does not know this lock, as nothing shows where its use ends: a second
   * `acquire` waits. With `reentrant`, the lock of a surrounding `using` or `@Locked` is joined:
   * the result is a view of it whose `release` does nothing.
   * @throws LockTakenError, NoQuorumError, LockExpiredError after `wait`; at once LockReentryError,
   *   RedlockClosedError, and a NoQuorumError that waiting does not cure; the reason of
   *   `options.signal`; TypeError, RangeError for bad input.
   */
  async acquire(
    resources: string | readonly string[],
    ttl?: Milliseconds,
    options: AcquireOptions & ReentrantOptions = {},
  ): Promise<Lock> {
    const caller = this.#caller(options, 'acquire');
    const joined = findJoinable(caller, resources);
    return joined ?? this.#core.acquire(resources, ttl, options, namesOf(caller));
  }

  /**
   * Acquires as {@link acquire} does with `wait: 0`, but resolves to null when others hold one of
   * the resources, or other calls of this process are already waiting for one.
   * @throws NoQuorumError, LockExpiredError at once, and the rest as {@link acquire}.
   */
  async tryAcquire(
    resources: string | readonly string[],
    ttl?: Milliseconds,
    options: Omit<AcquireOptions, 'wait'> & ReentrantOptions = {},
  ): Promise<Lock | null> {
    const caller = this.#caller(options, 'tryAcquire');
    const joined = findJoinable(caller, resources);
    return joined ?? this.#core.tryAcquire(resources, ttl, options, namesOf(caller));
  }

  /**
   * Runs `body` under a lock of `resources`, extended by the watchdog, and releases it when what
   * the body returned has settled. A number in place of the options is the `ttl`. Inside,
   * {@link currentLock} finds the lock. The body's own error comes out as it is. An Observable or a
   * stream that the body returns is used without the lock: end it inside, or use `@Locked`. A body
   * must await a call inside it that joins its lock (`reentrant`): the lock ends with the outermost
   * body.
   * @throws LockLostError when the lock was lost before a body that succeeded had ended; the error
   *   has the body's result. Without running the body: LockLostError when the lock was lost before
   *   the body began, and the rest as {@link acquire}.
   */
  using<T>(resources: string | readonly string[], body: LockedBody<T>): Promise<T>;
  using<T>(
    resources: string | readonly string[],
    options: Milliseconds | (UsingOptions & ReentrantOptions),
    body: LockedBody<T>,
  ): Promise<T>;
  async using<T>(
    resources: string | readonly string[],
    optionsOrBody: Milliseconds | PlacedOptions | LockedBody<T>,
    bodyAfterOptions?: LockedBody<T>,
  ): Promise<T> {
    const [options, body] = usingArguments(optionsOrBody, bodyAfterOptions);
    const caller = this.#caller(options, 'using');
    const { place } = caller;
    const joined = findJoinable(caller, resources);
    if (joined !== null) return runJoined(joined, place, body);
    const placedBody = (lock: Lock): Promise<T> =>
      runHolding({ domain: this.#core, lock, place }, body);
    return this.#core.using(resources, options, placedBody, namesOf(caller));
  }

  /**
   * Asks all nodes who holds `resource`; resolves after at most one node timeout.
   * @throws TypeError, RangeError for a bad name.
   */
  inspect(resource: string): Promise<ResourceState> {
    return this.#core.inspect(resource);
  }

  /** Tells how the locks and their nodes are, as last heard; asks no node. */
  status(): Promise<RedlockStatus> {
    return Promise.resolve(this.#core.status());
  }

  /** @throws TypeError where Nest made a service of a subclass, without one. */
  get #core(): Redlock {
    checkOrigin(this.#redlock);
    return this.#redlock;
  }

  #caller(options: PlacedOptions, method: string): Caller {
    checkObject('options', options);
    const { reentrant = this.#isReentrant, [placeOption]: place } = options;
    return {
      held: heldBy(this.#core),
      isReentrant: checkBoolean('reentrant', reentrant),
      place: place ?? `RedlockService.${method}`,
      isByHand: place === undefined,
    };
  }
}

function namesOf({ held }: Caller): readonly string[] {
  return held.flatMap(({ lock }) => lock.resources);
}

async function runJoined<T>(lock: Lock, place: string, body: LockedBody<T>): Promise<T> {
  // Else `currentLock` would find whatever was acquired since, such as another row's token.
  const result = await runHolding({ domain: null, lock, place }, body);
  // As with a lock of its own: if it was not valid to the very end, the result is in doubt.
  if (!lock.isValid) throw lock.lostError(result);
  return result;
}

/**
 * The arguments of `using` after its resources: the options may be a ttl, or left out.
 * @throws TypeError when the body is missing, or the options are neither a ttl nor an object, or
 *   come after the body.
 */
function usingArguments<T>(
  optionsOrBody: Milliseconds | PlacedOptions | LockedBody<T>,
  bodyAfterOptions: LockedBody<T> | undefined,
): readonly [PlacedOptions, LockedBody<T>] {
  if (typeof optionsOrBody === 'function') {
    if (bodyAfterOptions === undefined) return [{}, optionsOrBody];
    throw new TypeError('Expected the options before the body, got them after it');
  }
  const options = typeof optionsOrBody === 'number' ? { ttl: optionsOrBody } : optionsOrBody;
  if (!isObject(options)) throw wrongType('options', 'a ttl in ms or an object', options);
  if (typeof bodyAfterOptions !== 'function') {
    throw wrongType('body', 'a function', bodyAfterOptions);
  }
  return [options, bodyAfterOptions];
}

/** Refuses a service, or one of a class that extends it, without a core. @throws TypeError */
function checkOrigin(redlock: unknown): void {
  if (redlock !== undefined) return;
  throw new TypeError(
    'Expected RedlockService to come from RedlockModule, got it or a subclass among the ' +
      'providers of a module: remove it there, and inject the service',
  );
}
