// A lock whose use is ended from outside: a streamed result outlives the call that made it, and
// an endpoint's response outlives its handler.
import { captureContext, type ContextRunner } from './lock-context.js';
import type { Lock } from '../core/lock.js';
import { placeOption, type PlacedOptions, type RedlockService } from './redlock.service.js';
import { isPromiseLike } from './result-checks.js';

/**
 * A lock held until somebody says that its use is over. It ends at the latest by `maxHold`,
 * or by its ttl where nothing extends it.
 */
export interface Hold {
  readonly lock: Lock;
  /** Runs a function as a holder of the lock, for `currentLock` and re-entry. */
  readonly run: ContextRunner;
  /**
   * Releases after a use that succeeded with `result`; a second call waits for the first.
   * @throws LockLostError where the lock was not held to the end.
   */
  readonly end: (result?: unknown) => Promise<void>;
  /** Releases after a use that failed or was dropped. Never rejects: the use's own error counts. */
  readonly endQuietly: () => Promise<void>;
  /** Called with each ongoing result that the hold lasts for. */
  readonly onOngoing: ((result: unknown) => void) | undefined;
}

/**
 * Acquires by `service.using`, whose body lasts until the hold ends.
 * @throws What `using` throws. All of it concerns this acquisition, as no user code runs in it.
 */
export function openHold(
  service: RedlockService,
  resources: readonly string[],
  options: PlacedOptions,
): Promise<Hold> {
  return new Promise((resolve, reject) => {
    const finished = runLocked(service, resources, options, (lock) => {
      const { hold, ended } = createHold(lock, () => finished);
      resolve(hold);
      return ended;
    });
    // Has no effect once there is a hold: from then on its `end` or `endQuietly` reports. In two
    // steps, because V8 finds who awaits this, for the error's stack, only by `resolve`.
    finished
      .then(() => {
        throw mockError(options);
      })
      .then(resolve, reject);
  });
}

/**
 * Runs `body` by `service.using`.
 * @throws TypeError at once where that is a mock which does not lock.
 */
export function runLocked(
  service: RedlockService,
  resources: readonly string[],
  options: PlacedOptions,
  body: (lock: Lock) => Promise<unknown>,
): Promise<unknown> {
  const finished = service.using(resources, options, body);
  // A test double can have any shape.
  if (isPromiseLike(finished)) return finished;
  throw mockError(options);
}

function mockError(options: PlacedOptions): TypeError {
  return new TypeError(
    `Expected the RedlockService of ${options[placeOption]} to run the body in using() and to ` +
      `return a promise, got a mock that does not lock. Let it do so, using: (_resources, ` +
      `_options, body) => body(lock), or import RedlockModule.forRoot(), which without nodes ` +
      `locks in this process`,
  );
}

/**
 * Makes a hold for a body that was given `lock` and lasts until `ended`. `finished` gives the
 * outcome of the body and of the release after it.
 */
export function createHold(
  lock: Lock,
  finished: () => Promise<unknown>,
): { readonly hold: Hold; readonly ended: Promise<unknown> } {
  let finish: (result: unknown) => void;
  const ended = new Promise<unknown>((resolve) => (finish = resolve));
  const hold = holdOf(lock, captureContext(), (result) => {
    finish(result);
    return finished();
  });
  return { hold, ended };
}

/** A hold whose uses run by `run`, and whose end, however it comes about, is left to `onEnd`. */
export function holdOf(
  lock: Lock,
  run: ContextRunner,
  onEnd: (result: unknown) => unknown,
  onOngoing?: Hold['onOngoing'],
): Hold {
  const end = async (result?: unknown): Promise<void> => {
    await onEnd(result);
  };
  return { lock, run, end, endQuietly: () => end().catch(ignoreLoss), onOngoing };
}

function ignoreLoss(): void {
  // The use failed with its own error, or nobody waits for it any more; the loss has been logged.
}
