// A second acquisition of what the same async context holds would wait for itself. It is refused
// before anything is queued, or joins the held lock if the caller asked for that.
import { describeResources, LockReentryError } from '../core/errors.js';
import { normalizeResources } from '../core/resources.js';
import type { ContextLock } from './lock-context.js';
import type { Lock } from '../core/lock.js';

/** What the Nest layer adds to the options of an acquisition. */
export interface ReentrantOptions {
  /**
   * What happens when the same async context already holds the resource: false refuses the call
   * with a `LockReentryError`, true joins the held lock (same token), which the outermost holder
   * releases. `ttl`, `wait`, `watchdog` and the like of a call that joins have no effect. A queue
   * that calls share may run the job of one in the context of another: bind such jobs to their own
   * (docs/ERRORS.md#lock-reentry), or they join a lock that others rely on.
   * @default false – a nested acquisition is more often a mistake than intended
   */
  readonly reentrant?: boolean | undefined;
}

/** Who asks for a lock. */
export interface Caller {
  /** What its async context already holds in the same domain. */
  readonly held: readonly ContextLock[];
  readonly isReentrant: boolean;
  /** For people: `InventoryService.reserve`, `RedlockService.using`. */
  readonly place: string;
  /** Whether the error has to name the calling line too, as `place` says only what was called. */
  readonly isByHand: boolean;
}

/**
 * The lock to join, or null where the context holds none of the resources. A lost lock is not
 * joined: the call acquires anew.
 * @throws LockReentryError where the call would wait for itself.
 */
export function findJoinable(caller: Caller, input: unknown): Lock | null {
  if (caller.held.length === 0) return null;
  const resources = normalizeResources(input);
  const wanted = new Set(resources);
  const isWanted = (resource: string): boolean => wanted.has(resource);
  const overlapping = caller.held.filter(({ lock }) => lock.resources.some(isWanted));
  if (overlapping.length === 0) return null;
  const covering = overlapping.find(
    ({ lock }) => lock.resources.filter(isWanted).length === wanted.size,
  );
  if (covering !== undefined && caller.isReentrant) return joinedView(covering.lock);
  throw reentryError(caller, resources, overlapping, covering !== undefined);
}

/**
 * The held lock as a call that joined it sees it: the same except for `release`, which is left to
 * the outermost holder. After the end of the outermost body it shows as released.
 */
function joinedView(lock: Lock): Lock {
  return new Proxy(lock, {
    get(target, key) {
      if (key === 'release' || key === Symbol.asyncDispose) return leaveToOutermost;
      // The receiver is the lock itself: its private fields do not exist on the proxy.
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

function leaveToOutermost(): Promise<void> {
  return Promise.resolve();
}

function reentryError(
  caller: Caller,
  resources: readonly string[],
  overlapping: readonly ContextLock[],
  isCovered: boolean,
): LockReentryError {
  const held = overlapping
    .map(({ lock, place }) => `${describeResources(lock.resources)} in ${place}`)
    .join(', ');
  const obstacle = isCovered
    ? ''
    : '. No single lock held here covers them all, so there is none to join: acquire all of ' +
      'them together, in the outer call';
  const place = caller.isByHand ? `${caller.place}${callSite()}` : caller.place;
  const message =
    `${place} asks for ${describeResources(resources)}, ` +
    `but the same async context already holds ${held}: it would wait for itself${obstacle}`;
  return new LockReentryError(message, { resources });
}

// Read off a stack only once there is an error: a stack costs more than a lock. Its first frame is
// the service's method, the second that method's caller. It need not be a string if the application
// has an Error.prepareStackTrace of its own.
function callSite(): string {
  const trace: { stack?: unknown } = {};
  Error.captureStackTrace(trace, findJoinable);
  const line = String(trace.stack).split('\n')[2]?.trim() ?? '';
  return line === '' ? '' : ` (${line})`;
}
