import {
  usingArguments,
  type LockedBody,
  type Redlock,
  type RedlockStatus,
} from '../core/redlock.js';
import { heldBy, runHolding } from './lock-context.js';
import { findJoinable, type Caller, type ReentrantOptions } from './reentry.js';
import type { ResourceState } from '../core/inspection.js';
import type { Lock } from '../core/lock.js';
import { checkBoolean, checkObject } from '../core/option-checks.js';
import type { AcquireOptions, UsingOptions } from '../core/options.js';
import type { Milliseconds } from '../core/units.js';

/**
 * Names the acquisition in errors, in place of `RedlockService.using`. Set by `@Locked`.
 * @internal
 */
export const placeOption = Symbol.for('nestjs-locked.place');

/**
 * Where a service has the options of its module, for `@Locked` to compare its own with.
 * @internal
 */
export const moduleOptions = Symbol.for('nestjs-locked.module-options');

/** @internal Options of `using`, and who calls. */
export interface PlacedOptions extends UsingOptions, ReentrantOptions {
  readonly [placeOption]?: string;
}

/**
 * Locks by hand. Inject it by its class; further lock domains by `@InjectRedlock(name)`.
 * Compared with the core it knows the async context: what the context holds already is refused
 * at once, or joined (`reentrant`).
 */
export class RedlockService {
  readonly #redlock: Redlock;
  readonly #isReentrant: boolean;

  /** @internal Made by `RedlockModule`. @throws TypeError where it was not. */
  constructor(redlock: Redlock, options: ReentrantOptions = {}) {
    // Nest makes what a module lists among its providers, without anything to inject. A double that
    // extends the class has no need of it.
    if (new.target === RedlockService && (redlock as unknown) === undefined) {
      throw new TypeError('Expected RedlockService from RedlockModule alone, not in providers');
    }
    const { options: value } = (redlock as Redlock | undefined) ?? {};
    Object.defineProperty(this, moduleOptions, { value });
    this.#redlock = redlock;
    this.#isReentrant = options.reentrant ?? false;
  }

  /**
   * Locks all of `resources` or none, for `ttl` ms (whole, 100 to `ttlMax`; by default the
   * module's), and waits for them up to `wait`. Nobody extends the lock unless `watchdog` says so.
   * Release it: `await using`.
   * The async context does not know this lock, as nobody can tell where its use ends: a second
   * `acquire` waits. With `reentrant` the lock of a surrounding `using` or `@Locked` is joined:
   * the result is a view of it whose `release` does nothing.
   * @throws LockTakenError, NoQuorumError, LockExpiredError after `wait`; at once LockReentryError,
   *   RedlockClosedError, and a NoQuorumError that time does not heal; the reason of
   *   `options.signal`; TypeError, RangeError for bad input.
   */
  async acquire(
    resources: string | readonly string[],
    ttl?: Milliseconds,
    options: AcquireOptions & ReentrantOptions = {},
  ): Promise<Lock> {
    const caller = this.#caller(options, 'RedlockService.acquire');
    const joined = findJoinable(caller, resources);
    return joined ?? this.#redlock.acquire(resources, ttl, options, namesOf(caller));
  }

  /**
   * Tries as {@link acquire} with `wait: 0`; null when others hold one of the resources, or other
   * calls of this process wait for one already.
   * @throws NoQuorumError, LockExpiredError at once, and the rest as {@link acquire}.
   */
  async tryAcquire(
    resources: string | readonly string[],
    ttl?: Milliseconds,
    options: Omit<AcquireOptions, 'wait'> & ReentrantOptions = {},
  ): Promise<Lock | null> {
    const caller = this.#caller(options, 'RedlockService.tryAcquire');
    const joined = findJoinable(caller, resources);
    return joined ?? this.#redlock.tryAcquire(resources, ttl, options, namesOf(caller));
  }

  /**
   * Runs `body` while it holds `resources`, extended by the watchdog, and releases them when
   * what the body returned has settled. Inside, {@link currentLock} finds the lock. The body's
   * own error comes out as it is. An Observable or a stream that it returns is used without the
   * lock: end it inside, or use `@Locked`. A call that joins (`reentrant`) is to be awaited by
   * the body around it: the lock ends with the outermost.
   * @throws LockLostError when the lock was lost before a body that succeeded had ended; the
   *   body's result is on it. Also when it was lost before the body began, and the rest as
   *   {@link acquire}; then the body has not run.
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
    const [given, body] = usingArguments(optionsOrBody, bodyAfterOptions);
    const options: PlacedOptions = given;
    const place = options[placeOption] ?? 'RedlockService.using';
    const caller = this.#caller(options, place);
    const joined = findJoinable(caller, resources);
    if (joined !== null) return runJoined(joined, body);
    const placedBody = (lock: Lock): Promise<T> =>
      runHolding({ domain: this.#redlock, lock, place }, () => body(lock));
    return this.#redlock.using(resources, options, placedBody, namesOf(caller));
  }

  /**
   * Asks all nodes who holds `resource`; resolves after at most one node timeout.
   * @throws TypeError, RangeError for a bad name.
   */
  inspect(resource: string): Promise<ResourceState> {
    return this.#redlock.inspect(resource);
  }

  /** How the locks and their nodes are, as last heard; asks no node. */
  status(): Promise<RedlockStatus> {
    return Promise.resolve(this.#redlock.status());
  }

  #caller(options: PlacedOptions, place: string): Caller {
    checkObject('options', options);
    const isReentrant = checkBoolean('reentrant', options.reentrant ?? this.#isReentrant);
    return {
      held: heldBy(this.#redlock),
      isReentrant,
      place,
      isByHand: options[placeOption] === undefined,
    };
  }
}

function namesOf({ held }: Caller): readonly string[] {
  return held.flatMap(({ lock }) => lock.resources);
}

async function runJoined<T>(lock: Lock, body: LockedBody<T>): Promise<T> {
  const result = await body(lock);
  // As with a lock of its own: not valid to the very end means that the result is in doubt.
  if (!lock.isValid) throw lock.lostError(result);
  return result;
}
