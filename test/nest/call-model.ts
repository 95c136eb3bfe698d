// The model that calls at random are measured by: which bodies are open in which context, what each
// call therefore gets, and what has to come of it.
import { getEventListeners } from 'node:events';

import {
  currentLock,
  LockLostError,
  LockReentryError,
  RedlockError,
  type Lock,
} from 'nestjs-locked';

import { overlapsOf } from '../core/play-checks.js';
import type { SimulatedEnvironment } from '../support/simulated-environment.js';

/** How a lock is asked for: by hand, or by a method that returns a promise, and so on. */
export type Way = 'using' | 'promise' | 'steps' | 'values';

/** What is asked for, and from where. */
export interface Request {
  readonly way: Way;
  /** Which application is asked. */
  readonly application: number;
  readonly resources: readonly string[];
  readonly isReentrant: boolean;
  /** The innermost body in whose context it is made, which may be over; null outside of all. */
  readonly inside: Body | null;
  /** Gives up the wait of `using`, and leaves what goes on after the call. */
  readonly abortion: AbortController;
}

/** What a request gets: a lock of its own, a part in the lock of an open body, or a refusal. */
type Fate = 'own' | 'refused' | Body;

/** A call, from the moment it is made. */
export interface Call extends Request {
  readonly calledAt: number;
  readonly fate: Fate;
  /** Null until it runs. */
  body: Body | null;
}

/** One run of what is locked. */
export interface Body {
  readonly call: Call;
  readonly lock: Lock;
  /** Kept, as a lock whose use is over makes another one. */
  readonly signal: AbortSignal;
  /** Whose lock this is; null where the body has its own. */
  readonly owner: Body | null;
  isOpen: boolean;
  /** Whether the lock was valid when the body ended. */
  wasHeld: boolean;
  /** When the lock was first seen to be lost. */
  lostAt: number;
  /** What it has returned or thrown, if it came that far. */
  result?: string;
  error?: Error;
}

/** Who reads a result in steps asks for the next one after this time at most; in ms. */
export const PAUSE_MAX = 30;
/** In this time he learns of a loss, which timers may tell of a little late; in ms. */
const NEWS_MAX = PAUSE_MAX + 2;

/** The calls and bodies of one play, and what was wrong with them. */
export class CallModel {
  readonly findings: string[] = [];
  /** Those that have not ended. */
  readonly #calls = new Set<Call>();
  readonly #bodies = new Set<Body>();
  readonly #seed: number;
  readonly #environment: SimulatedEnvironment;
  readonly #mayOverlap: boolean;

  constructor(seed: number, environment: SimulatedEnvironment, mayOverlap: boolean) {
    this.#seed = seed;
    this.#environment = environment;
    this.#mayOverlap = mayOverlap;
  }

  get callCount(): number {
    return this.#calls.size;
  }

  /** Foretells what a request gets that is made right now. */
  begin(request: Request): Call {
    const calledAt = this.#environment.now();
    const call = { ...request, calledAt, fate: fateOf(request), body: null };
    this.#calls.add(call);
    return call;
  }

  /** The call runs, under this lock. */
  enter(call: Call, lock = currentLock()): Body {
    if (lock === undefined) throw new Error('A body runs without a lock');
    const { signal } = lock;
    const owner = typeof call.fate === 'string' ? null : call.fate;
    const body: Body = { call, lock, signal, owner, isOpen: true, wasHeld: true, lostAt: Infinity };
    call.body = body;
    this.#bodies.add(body);
    this.#findOf(call, faultOfStart(call, lock));
    this.checkContext(body);
    this.checkOpen();
    return body;
  }

  leave(body: Body): void {
    body.wasHeld = body.lock.isValid;
    body.isOpen = false;
  }

  end(call: Call, result: unknown, error: unknown): void {
    this.#calls.delete(call);
    this.#findOf(call, faultOfEnd(call, result, error, this.#environment.now()));
    const left = getEventListeners(call.abortion.signal, 'abort').length;
    if (left > 0) this.#findOf(call, `leaves ${left} listeners on its signal`);
  }

  /** In the running context, that of `inside`, the lock of the innermost open body is current. */
  checkContext(inside: Body | null): void {
    const [innermost] = openFrom(inside);
    const current = currentLock();
    if (current === innermost?.lock) return;
    const tokens = `${String(current?.fencingToken)}, not ${String(innermost?.lock.fencingToken)}`;
    this.find(
      `${inside === null ? 'outside' : nameOf(inside.call)}, the current lock is ${tokens}`,
    );
  }

  /** Open bodies have their locks or learn of the loss, and no two have one resource. */
  checkOpen(): void {
    const now = this.#environment.now();
    // A joined lock ends with the body of its owner.
    const due = [...this.#bodies].filter(({ isOpen, owner }) => isOpen && owner?.isOpen !== false);
    for (const body of due) {
      const { call, lock } = body;
      if (lock.isLost()) body.lostAt = Math.min(body.lostAt, now);
      else if (!lock.isValid) this.#findOf(call, 'runs on although its lock is released');
      const isLate = now > body.lostAt + NEWS_MAX && isStreamed(call) && this.#calls.has(call);
      if (isLate) this.#findOf(call, 'goes on although its lock is lost');
    }
    const locks = due.flatMap(({ lock, owner }) => (owner === null ? [lock] : []));
    if (!this.#mayOverlap) this.find(...overlapsOf(locks));
  }

  checkAllEnded(): void {
    for (const call of this.#calls) this.#findOf(call, 'never ends');
    for (const { call, isOpen, signal } of this.#bodies) {
      if (isOpen) this.#findOf(call, 'has a body that never ends');
      const left = signal.aborted ? 0 : getEventListeners(signal, 'abort').length;
      if (left > 0) this.#findOf(call, `leaves ${left} listeners on the signal of its lock`);
    }
  }

  find(...found: readonly string[]): void {
    this.findings.push(...found.map((what) => `seed ${this.#seed}: ${what}`));
  }

  #findOf(call: Call, fault: string | null): void {
    if (fault !== null) this.find(`${nameOf(call)} ${fault}`);
  }
}

/**
 * A body has its lock until it ends, and so has all that is called in its context. A lost lock is
 * none, nor is that of another application; and only who acquired a lock can be joined.
 */
function fateOf({ application, resources, isReentrant, inside }: Request): Fate {
  const overlapping = [...openFrom(inside)].filter(
    ({ call, lock, owner }) =>
      owner === null &&
      call.application === application &&
      lock.isValid &&
      resources.some((resource) => lock.resources.includes(resource)),
  );
  if (overlapping.length === 0) return 'own';
  const covering = overlapping.find(({ lock }) =>
    resources.every((resource) => lock.resources.includes(resource)),
  );
  return isReentrant && covering !== undefined ? covering : 'refused';
}

/** What is wrong with the body that a call has got; null where nothing is. */
function faultOfStart({ fate, resources }: Call, lock: Lock): string | null {
  if (fate === 'refused') return 'runs although the context has a lock';
  const names = lock.resources.join();
  if (fate === 'own') return names === resources.join() ? null : `has the lock of ${names}`;
  const { ownerId, fencingToken } = fate.lock;
  const isJoined = lock.ownerId === ownerId && lock.fencingToken === fencingToken;
  return isJoined ? null : 'does not join';
}

/** What is wrong with the end of a call; null where nothing is. */
function faultOfEnd(call: Call, result: unknown, error: unknown, now: number): string | null {
  const { abortion, body, calledAt, fate } = call;
  const { aborted, reason } = abortion.signal;
  if (fate === 'refused') {
    const isRefused = error instanceof LockReentryError && body === null && now === calledAt;
    return isRefused ? null : `is not refused at once: ${String(error)}`;
  }
  // Who has left is not told of the end.
  if (isStreamed(call) && aborted) return null;
  if (body === null) {
    const isFailed = error instanceof RedlockError && !(error instanceof LockReentryError);
    const isFine = fate === 'own' && (isFailed || (aborted && error === reason));
    return isFine ? null : `does not run: ${String(error)}`;
  }
  if (body.owner === null && body.lock.isValid) return 'is over and still has its lock';
  const wasHeld = body.isOpen ? body.lock.isValid : body.wasHeld;
  if (error instanceof LockLostError && error !== body.error) {
    if (wasHeld) return `held its lock: ${String(error)}`;
    // What goes on after the call may fail before its body has ended.
    return isStreamed(call) || error.result === body.result ? null : 'loses its result';
  }
  if (error !== body.error) return `hides ${String(body.error)} behind ${String(error)}`;
  if (result !== body.result) return `gives ${String(result)} for ${String(body.result)}`;
  return error === undefined && !wasHeld ? 'hides that its lock was lost' : null;
}

/** Whether the result goes on after the call, and may be left before its end. */
function isStreamed({ way }: Call): boolean {
  return way === 'steps' || way === 'values';
}

/** The bodies that are open around this one, from the inside out. */
function* openFrom(inside: Body | null): Generator<Body> {
  for (let body = inside; body !== null; body = body.call.inside) if (body.isOpen) yield body;
}

function nameOf({ application, resources, way }: Call): string {
  return `${way} of ${resources.join('+')} in application ${application}`;
}
