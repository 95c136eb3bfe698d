// The model that calls at random are measured by: which bodies are open in which context, what each
// call therefore gets, and what has to come of it.
import { getEventListeners } from 'node:events';

import { currentLock, type Lock } from 'nestjs-locked';

import { overlapsOf } from '../core/play-checks.js';
import type { SimulatedEnvironment } from '../support/simulated-environment.js';
import { faultOfEnd, faultOfStart, isStreamed } from './call-faults.js';
import { Body, isOrigin, nameOf } from './calls.js';
import type { Client } from './call-clients.js';
import type { Call, Endpoint, Fate, Request } from './calls.js';

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
  /** Signals that may be listened to for what will never be read. */
  readonly #forgiven = new Set<AbortSignal>();
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
  begin(request: Request, endpoint: Endpoint | null = null, fate = this.#fateOf(request)): Call {
    const call = { ...request, calledAt: this.now, fate, endpoint, body: null, isWithout: false };
    this.#calls.add(call);
    return call;
  }

  /** The call asks for its lock only now, or once more. */
  ask(call: Call): void {
    call.calledAt = this.now;
    call.fate = this.#fateOf(call);
  }

  #fateOf(request: Request): Fate {
    this.noticeLocks(request.inside);
    return fateOf(request);
  }

  /** The call runs, under this lock. */
  enter(call: Call, lock = currentLock(), body = new Body(call)): Body {
    if (lock === undefined) throw new Error('A body runs without a lock');
    if (!isOrigin(call.way)) call.endpoint?.onRun(call);
    const isUsed = call.fate === 'own' && !this.isNew(lock);
    this.findOf(call, isUsed ? 'has the lock of another' : faultOfStart(call, lock));
    this.admit(body, lock);
    this.checkContext(body);
    this.checkOpen();
    return body;
  }

  /** From now on this lock is known to be that of the body. */
  admit(body: Body, lock: Lock): void {
    body.begin(lock);
    body.call.body = body;
    this.#bodies.add(body);
  }

  /** The call does without a lock. */
  enterWithout(call: Call): void {
    const isDue = call.isOptional && call.fate === 'own' && call.body === null;
    if (!isDue) this.findOf(call, 'does without its lock');
    call.isWithout = true;
    this.checkContext(call.inside);
  }

  /** Whether no body has this lock so far. */
  isNew(lock: Lock | undefined): boolean {
    return lock !== undefined && ![...this.#bodies].some((body) => body.lock === lock);
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
    this.noticeLocks(inside);
    const [innermost] = openFrom(inside);
    const current = currentLock();
    if (current === innermost?.lock || isFading(current, inside)) return;
    const tokens = `${String(current?.fencingToken)}, not ${String(innermost?.lock.fencingToken)}`;
    this.find(
      `${inside === null ? 'outside' : nameOf(inside.call)}, the current lock is ${tokens}`,
    );
  }

  /** A response may have its lock before its handler begins, or although nobody waits for that. */
  noticeLocks(inside: Body | null): void {
    // From the outside in: what the context of one holds, those of all further in hold too.
    for (const { call } of [...allFrom(inside)].reverse()) {
      if (call.body === null) call.endpoint?.noticeLock();
    }
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
      const isWaiting = call.endpoint?.hasBegun === false && call.way !== 'arguments';
      if (isWaiting && call.client.hasLeft) this.findOf(call, 'waits although its client has left');
    }
  }

  /** Something is left unread under the lock of this signal, and nobody is told of it. */
  forgive(signal: AbortSignal): void {
    this.#forgiven.add(signal);
  }

  checkAllEnded(): void {
    for (const call of this.#calls) this.findOf(call, 'never ends');
    for (const { call, isOpen, signal } of this.#bodies) {
      if (this.#forgiven.has(signal)) continue;
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

/**
 * A body has its lock until it ends, and so has all that is called in its context. A lost lock is
 * none, nor is that of another lock domain; and only who acquired a lock can be joined.
 */
function fateOf({ domain, resources, isReentrant, inside }: Request): Fate {
  const overlapping = [...openFrom(inside)].filter(
    ({ call, lock, owner }) =>
      owner === null &&
      call.domain === domain &&
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

/** The open bodies whose locks the context knows, from the inside out: not those taken by hand. */
function* openFrom(inside: Body | null): Generator<Body> {
  for (const body of allFrom(inside)) {
    if (body.isOpen && body.call.way !== 'acquire') yield body;
  }
}

function* allFrom(inside: Body | null): Generator<Body> {
  for (let body = inside; body !== null; body = body.call.inside) yield body;
}
