// Which locks the running async context holds, and which endpoint call it belongs to. A chain of
// frames in AsyncLocalStorage, innermost first. Every frame is closed when its body has settled, so
// that work started inside that outlives the body does not believe it holds the lock.
import { AsyncLocalStorage } from 'node:async_hooks';

import type { Lock } from '../core/lock.js';
import type { LockedBody } from '../core/redlock.js';
import type { EndpointScope } from './endpoint-scope.js';

/** A lock that a body runs under. */
export interface ContextLock {
  /**
   * The lock domain that acquired it: locks of another domain are other locks. Null where the body
   * joined it: who acquired it is further out.
   */
  readonly domain: object | null;
  readonly lock: Lock;
  /** Who acquired it, for people: `InventoryService.reserve`. */
  readonly place: string;
}

/** Runs a function as a holder of the captured locks. */
export type ContextRunner = <T>(body: () => T) => T;

interface Frame {
  outer: Frame | undefined;
  /** Null in a closed frame, and in that of a scope without a lock. */
  held: ContextLock | null;
  readonly scope: EndpointScope | null;
}

const storage = sharedStorage();

/**
 * Returns the lock that the running async context holds: inside a `@Locked` method or the body of
 * `RedlockService.using`, and in everything they call and await. With several locks, that of the
 * innermost method or body, or the innermost one of `resource`. Undefined outside, which includes
 * the body of a `for await` over a `@Locked` generator, the source of a stream that a method
 * returns, and background work that outlives the body. The lock may have been lost meanwhile: watch
 * its `signal`, or check its `isValid`.
 * @example
 * ```ts
 * @Locked('nightly-report')
 * async build() {
 *   for (const page of pages) {
 *     currentLock()?.signal.throwIfAborted();
 *     await this.render(page);
 *   }
 * }
 * ```
 */
export function currentLock(resource?: string): Lock | undefined {
  for (const { lock } of contextLocks()) {
    if (resource === undefined || lock.resources.includes(resource)) return lock;
  }
  return undefined;
}

/** The locks that the running async context holds, innermost first; lost ones included. */
function* contextLocks(): Generator<ContextLock> {
  for (const { held } of frames()) if (held !== null) yield held;
}

/** The locks of `domain` that the running async context holds, innermost first; no lost ones. */
export function heldBy(domain: object): readonly ContextLock[] {
  if (storage.getStore() === undefined) return [];
  // A scope's lock comes twice around a handler inside locks of inner interceptors.
  const locks = [...new Set(contextLocks())];
  return locks.filter((held) => held.domain === domain && held.lock.isValid);
}

/** The endpoint calls that the running async context belongs to, innermost first. */
export function* contextScopes(): Generator<EndpointScope> {
  for (const { scope } of frames()) if (scope !== null) yield scope;
}

/** Runs `body` as the holder of `held`, until what it returned has settled. */
export async function runHolding<T>(held: ContextLock, body: LockedBody<T>): Promise<T> {
  const [outer] = frames();
  const frame: Frame = { outer, held, scope: null };
  try {
    // Made a promise inside the frame: a lazy query, such as Prisma's, starts when it is awaited.
    return await storage.run(frame, () => Promise.resolve(body(held.lock)));
  } finally {
    // Cleared, not only marked: a lock may keep alive the context that it was acquired in, whose
    // frame kept the lock before it, and so on through every iteration of a loop.
    frame.held = null;
  }
}

/**
 * Captures which locks the running async context holds, for a body that goes on in calls made
 * from elsewhere. Captures nothing else: other AsyncLocalStorage values, such as an inner
 * interceptor's transaction, stay the caller's.
 */
export function captureContext(): ContextRunner {
  const frame = storage.getStore();
  return (body) => storage.run(frame, body);
}

/**
 * A runner in the endpoint call `scope`, and under its lock from the moment it has one. That is the
 * innermost there: locks that the running async context has besides, as those of inner
 * interceptors, are further out.
 */
export function captureInScope(scope: EndpointScope): ContextRunner {
  const frame: Frame = {
    // Else the frames of a handler that is retried in its own context would pile up.
    outer: [...frames()].find((each) => each.scope !== scope),
    // Looked up each time: where the handler acquires, most of what runs in the scope began before.
    get held() {
      return scope.held;
    },
    scope,
  };
  return (body) => storage.run(frame, body);
}

/** Captures a look at the lock of the body that runs: null once that has settled. */
export function captureHeld(): () => ContextLock | null {
  const frame = storage.getStore();
  // A mock may call its body in no frame of its own. A scope would look at itself.
  return () => (frame?.scope === null ? frame.held : null);
}

// Closed frames are taken out. Otherwise a loop that starts each iteration inside the body of the
// previous one, whether or not that is over by then, would grow the chain for ever.
function* frames(): Generator<Frame> {
  let frame = firstOpen(storage.getStore());
  while (frame !== undefined) {
    yield frame;
    frame = frame.outer = firstOpen(frame.outer);
  }
}

/** This frame, or the first one further out, that is not closed. */
function firstOpen(frame: Frame | undefined): Frame | undefined {
  let open = frame;
  while (open?.held === null && open.scope?.isOver !== false) open = open.outer;
  return open;
}

type FrameStorage = AsyncLocalStorage<Frame | undefined>;

// Shared by the ESM and the CJS copy of the package: a lock of the other copy has to be seen,
// or a nested call would wait for itself.
function sharedStorage(): FrameStorage {
  const key = Symbol.for('nestjs-locked.context');
  const existing: unknown = Reflect.get(globalThis, key);
  if (existing instanceof AsyncLocalStorage) return existing as FrameStorage;
  const created: FrameStorage = new AsyncLocalStorage();
  Object.defineProperty(globalThis, key, { value: created });
  return created;
}
