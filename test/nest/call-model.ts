// The model that calls at random are measured by: which bodies are open in which context, what each
// call therefore gets, and what has to come of it.
import { getEventListeners } from 'node:events';
import { Writable } from 'node:stream';

import { currentLock, type Lock } from 'nestjs-locked';

import { overlapsOf } from '../core/play-checks.js';
import type { SimulatedEnvironment } from '../support/simulated-environment.js';
import { faultOfEnd, faultOfStart, isStreamed } from './call-faults.js';

/** What a method returns: a promise, an async generator, or an Observable. */
export type Kind = 'promise' | 'steps' | 'values';

/** Where an endpoint's lock has its names from. */
export type Origin = 'literal' | 'context' | 'arguments';

/** How a lock is asked for: by hand, by a method of some kind, or by an endpoint. */
export type Way = 'using' | Kind | Origin;

/** Who makes a call, and may leave before it has ended. */
export class Client {
  readonly #abortion = new AbortController();
  /** Where an endpoint's answer goes. */
  readonly response = new Writable();
  leftAt = Infinity;

  /** Gives up the wait of `using`, and leaves what goes on after the call. */
  get signal(): AbortSignal {
    return this.#abortion.signal;
  }

  get hasLeft(): boolean {
    return this.leftAt < Infinity;
  }

  leave(now: number): void {
    this.leftAt = Math.min(this.leftAt, now);
    this.#abortion.abort();
    this.response.destroy();
  }
}

/** What is asked for, and from where. */
export interface Request {
  readonly way: Way;
  /** Which application is asked. */
  readonly application: number;
  readonly resources: readonly string[];
  readonly isReentrant: boolean;
  /** The innermost body in whose context it is made, which may be over; null outside of all. */
  readonly inside: Body | null;
  readonly client: Client;
}

/** What a request gets: a lock of its own, a part in the lock of an open body, or a refusal. */
export type Fate = 'own' | 'refused' | Body;

/** What an endpoint's call, and each run of its handler, belong to. */
export interface Endpoint {
  /** Whether it keeps the lock for what goes on after the endpoint's call. */
  readonly isBusy: boolean;
  /** A run of the handler is about to begin. */
  onRun(run: Call): void;
}

/** A call, from the moment it is made. */
export interface Call extends Request {
  /** When it last asked for a lock, and what it gets. */
  calledAt: number;
  fate: Fate;
  inside: Body | null;
  /** Null for all but endpoints. */
  readonly endpoint: Endpoint | null;
  /** Null until it runs. */
  body: Body | null;
}

/** One run of what is locked. */
export class Body {
  readonly call: Call;
  readonly lock: Lock;
  /** Kept, as a lock whose use is over makes another one. */
  readonly signal: AbortSignal;
  /** Whose lock this is; null where the body has its own. */
  readonly owner: Body | null;
  /** Whether the lock was valid when the body ended. */
  wasHeld = true;
  /** When the lock was first seen to be lost. */
  lostAt = Infinity;
  /** What it has returned or thrown, if it came that far. */
  result?: string;
  error?: Error;
  #hasEnded = false;

  constructor(call: Call, lock: Lock) {
    this.call = call;
    this.lock = lock;
    this.signal = lock.signal;
    this.owner = typeof call.fate === 'string' ? null : call.fate;
  }

  /** Whether it has its lock still, but for a loss. */
  get isOpen(): boolean {
    const { endpoint, way } = this.call;
    return !this.#hasEnded || (isOrigin(way) && endpoint?.isBusy === true);
  }

  end(): void {
    this.wasHeld = this.lock.isValid;
    this.#hasEnded = true;
  }
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

  get now(): number {
    return this.#environment.now();
  }

  /** Who waits for a lock outside of all bodies, of which one might end in the same tick. */
  get waiting(): readonly Client[] {
    const calls = [...this.#calls].filter(({ body, inside }) => body === null && inside === null);
    return calls.map(({ client }) => client);
  }

  /** Foretells what a request gets that is made right now. */
  begin(request: Request, endpoint: Endpoint | null = null, fate = fateOf(request)): Call {
    const call = { ...request, calledAt: this.now, fate, endpoint, body: null };
    this.#calls.add(call);
    return call;
  }

  /** The call asks for its lock only now, or once more. */
  ask(call: Call): void {
    call.calledAt = this.now;
    call.fate = fateOf(call);
  }

  /** The call runs, under this lock. */
  enter(call: Call, lock = currentLock()): Body {
    if (lock === undefined) throw new Error('A body runs without a lock');
    if (!isOrigin(call.way)) call.endpoint?.onRun(call);
    const isUsed = call.fate === 'own' && [...this.#bodies].some((body) => body.lock === lock);
    this.findOf(call, isUsed ? 'has the lock of another' : faultOfStart(call, lock));
    const body = (call.body = new Body(call, lock));
    this.#bodies.add(body);
    this.checkContext(body);
    this.checkOpen();
    return body;
  }

  /** Judges what comes of a call. */
  judge(call: Call, outcome: Promise<unknown>): Promise<void> {
    return outcome.then(
      (result) => this.end(call, result, undefined),
      (error: unknown) => this.end(call, undefined, error),
    );
  }

  end(call: Call, result: unknown, error: unknown): void {
    this.findOf(call, faultOfEnd(call, result, error, this.now));
    this.drop(call);
  }

  /** Nobody waits for it any more. */
  drop(call: Call): void {
    this.#calls.delete(call);
  }

  isUnderWay(call: Call): boolean {
    return this.#calls.has(call);
  }

  /** In the running context, that of `inside`, the lock of the innermost open body is current. */
  checkContext(inside: Body | null): void {
    const [innermost] = openFrom(inside);
    const current = currentLock();
    if (current === innermost?.lock || isFading(current, inside)) return;
    const tokens = `${String(current?.fencingToken)}, not ${String(innermost?.lock.fencingToken)}`;
    this.find(
      `${inside === null ? 'outside' : nameOf(inside.call)}, the current lock is ${tokens}`,
    );
  }

  /** Open bodies have their locks or learn of the loss, and no two have one resource. */
  checkOpen(): void {
    // A joined lock ends with the body of its owner.
    const due = [...this.#bodies].filter(({ isOpen, owner }) => isOpen && owner?.isOpen !== false);
    for (const body of due) {
      const { call, lock } = body;
      if (lock.isLost()) body.lostAt = Math.min(body.lostAt, this.now);
      else if (!lock.isValid) this.findOf(call, 'runs on although its lock is released');
      const isLate = this.now > body.lostAt + NEWS_MAX && isStreamed(call);
      if (isLate && this.isUnderWay(call)) this.findOf(call, 'goes on although its lock is lost');
    }
    const locks = due.flatMap(({ lock, owner }) => (owner === null ? [lock] : []));
    if (!this.#mayOverlap) this.find(...overlapsOf(locks));
  }

  /** Once all that is due now is done: who has ended has no lock, and who has left waits for none. */
  checkEnded(): void {
    for (const { call, isOpen, lock, owner } of this.#bodies) {
      if (!isOpen && owner === null && lock.isValid) this.findOf(call, 'has ended with its lock');
    }
    for (const call of this.#calls) {
      const isWaiting = call.body === null && (call.way === 'literal' || call.way === 'context');
      if (isWaiting && call.client.hasLeft) this.findOf(call, 'waits although its client has left');
    }
  }

  checkAllEnded(): void {
    for (const call of this.#calls) this.findOf(call, 'never ends');
    for (const { call, isOpen, signal } of this.#bodies) {
      if (isOpen) this.findOf(call, 'has a body that never ends');
      const left = signal.aborted ? 0 : getEventListeners(signal, 'abort').length;
      if (left > 0) this.findOf(call, `leaves ${left} listeners on the signal of its lock`);
    }
  }

  /** Once its call is over, and all that belongs to it. */
  checkClient(request: Request): void {
    const left = getEventListeners(request.client.signal, 'abort').length;
    if (left > 0) this.findOf(request, `leaves ${left} listeners on its signal`);
  }

  find(...found: readonly string[]): void {
    this.findings.push(...found.map((what) => `seed ${this.#seed}: ${what}`));
  }

  findOf(request: Request, fault: string | null): void {
    if (fault !== null) this.find(`${nameOf(request)} ${fault}`);
  }
}

export function isOrigin(way: Way): way is Origin {
  return way === 'literal' || way === 'context' || way === 'arguments';
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

/** Whether this is a lost lock of a body that has just ended: it is known until that is settled. */
function isFading(lock: Lock | undefined, inside: Body | null): boolean {
  return lock?.isLost() === true && [...allFrom(inside)].some((body) => body.lock === lock);
}

/** The bodies that are open around this one, from the inside out. */
function* openFrom(inside: Body | null): Generator<Body> {
  for (const body of allFrom(inside)) if (body.isOpen) yield body;
}

function* allFrom(inside: Body | null): Generator<Body> {
  for (let body = inside; body !== null; body = body.call.inside) yield body;
}

function nameOf({ application, resources, way }: Request): string {
  return `${way} of ${resources.join('+')} in application ${application}`;
}
