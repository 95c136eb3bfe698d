// Which locks the running async context holds, and which endpoint call it belongs to. A chain of
// frames in AsyncLocalStorage, innermost first; every frame is closed when its body has settled,
// so that work started inside, which outlives the body, does not believe that it is locked.
import { AsyncLocalStorage } from 'node:async_hooks';

import type { Lock } from '../core/lock.js';
import type { EndpointScope } from './endpoint-scope.js';

/** A lock that a body runs under. */
export interface ContextLock {
  /** What acquired it: locks of another domain are other locks. */
  readonly domain: object;
  readonly lock: Lock;
  /** Who acquired it, for people: `InventoryService.reserve`. */
  readonly place: string;
}

/** Runs a function as a holder of the locks that were captured. */
export type ContextRunner = <T>(body: () => T) => T;

interface Frame {
  outer: Frame | undefined;
  /** Null where the frame is that of a scope, or closed. */
  held: ContextLock | null;
  readonly scope: EndpointScope | null;
}

const storage = sharedStorage();

/**
 * The lock that the running async context holds: inside a `@Locked` method or the body of
 * `RedlockService.using`, also in what they call and await. With several, the innermost one, or
 * the innermost one of `resource`. Undefined outside, as in the body of a `for await` over a
 * `@Locked` generator, and in background work that outlives the body. The lock may have been lost
 * meanwhile: watch its `signal`, ask its `isValid`.
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

/** The locks of `domain` that the running async context holds, innermost first; none is lost. */
export function heldBy(domain: object): readonly ContextLock[] {
  if (storage.getStore() === undefined) return [];
  return [...contextLocks()].filter((held) => held.domain === domain && held.lock.isValid);
}

/** The endpoint calls that the running async context belongs to, innermost first. */
export function* contextScopes(): Generator<EndpointScope> {
  for (const { scope } of frames()) if (scope !== null) yield scope;
}

/** Runs `body` as the holder of `held`, until what it returned has settled. */
export async function runHolding<T>(held: ContextLock, body: () => T | Promise<T>): Promise<T> {
  const frame = openFrame(held, null);
  try {
    // Made a promise within: a query, as of Prisma, begins when it is awaited.
    return await storage.run(frame, () => Promise.resolve(body()));
  } finally {
    // Not only marked: what a lock keeps may keep the context that it was acquired in, whose frame
    // kept the lock before it, and so on for all rounds of a loop.
    frame.held = null;
  }
}

/** Runs `body` in the endpoint call `scope`; the scope itself says when it is over. */
export function runInScope<T>(scope: EndpointScope, body: () => T): T {
  return storage.run(openFrame(null, scope), body);
}

/**
 * Captures which locks the running async context holds, for a body that goes on in calls made
 * from elsewhere. Only that: other stores, such as an inner interceptor's transaction, stay the
 * caller's.
 */
export function captureContext(): ContextRunner {
  const frame = storage.getStore();
  return (body) => storage.run(frame, body);
}

function openFrame(held: ContextLock | null, scope: EndpointScope | null): Frame {
  const [outer] = frames();
  return { outer, held, scope };
}

// Closed frames are taken out: a loop that starts its next round inside the body of the last one,
// be that over by then or not, would otherwise grow the chain for ever.
function* frames(): Generator<Frame> {
  let frame = openFrom(storage.getStore());
  while (frame !== undefined) {
    yield frame;
    frame = frame.outer = openFrom(frame.outer);
  }
}

function openFrom(frame: Frame | undefined): Frame | undefined {
  let open = frame;
  while (open?.held === null && open.scope?.isOver !== false) open = open.outer;
  return open;
}

type FrameStorage = AsyncLocalStorage<Frame | undefined>;

// One for the ESM and the CJS copy of the package: a lock that the other copy holds must be seen,
// or a nested call would wait for itself.
function sharedStorage(): FrameStorage {
  const key = Symbol.for('nestjs-locked.context');
  const existing: unknown = Reflect.get(globalThis, key);
  if (existing instanceof AsyncLocalStorage) return existing as FrameStorage;
  const created: FrameStorage = new AsyncLocalStorage();
  Object.defineProperty(globalThis, key, { value: created });
  return created;
}
