// The model of an endpoint at random: how long a response keeps its lock, and what has to come of
// it. To the model of calls, the response is a body, and each run of the handler one that joins it.
import { AsyncLocalStorage } from 'node:async_hooks';

import { currentLock, LockLostError, type Lock } from 'nestjs-locked';

import { isAsyncIterable } from '../../lib/nest/result-checks.js';
import { faultOfFailure, faultOfTranslation, originalOf } from './call-faults.js';
import type { CallModel } from './call-model.js';
import { Body, type Call, type Endpoint, type Kind, type Request } from './calls.js';

/** One try of an endpoint: the outer interceptors may make several, of which each locks anew. */
export class EndpointTry implements Endpoint {
  readonly call: Call;
  /** What the inner interceptors are in. */
  readonly inside: Body;
  /** What the inner interceptors have given, and what of it has come out. */
  readonly given: unknown[] = [];
  readonly got: unknown[] = [];
  hasBegun = false;
  /** What is read after the response: a run of the handler, or of an inner interceptor's own. */
  streamed: Call | null = null;
  /** Whether it ended with something to be sent that keeps the lock. */
  isSending = false;
  readonly #model: CallModel;
  /** The lock that its own context holds, from when it has begun. */
  #lockHere: (() => Lock | undefined) | null = null;
  readonly #runs: Call[] = [];
  /** Whether what is read after the response keeps the lock. */
  #isKept = false;
  readonly #left = new Set<Call>();
  /** The run of the handler that began last. */
  #handled: Call | null = null;
  #error: unknown;
  #overAt = Infinity;
  /** Whether the response had to end before what it keeps its lock for. */
  #wasBusy = false;
  #hasEnded = false;

  constructor(model: CallModel, request: Request) {
    this.#model = model;
    this.call = model.begin(request, this);
    this.inside = new Body(this.call);
  }

  /** Whether the handler runs, or a stream is to be read. */
  get isBusy(): boolean {
    return this.#runs.some((run) => run.body?.isOpen ?? this.#isUnread(run));
  }

  /** Whether a run of the handler goes on. */
  get isAtWork(): boolean {
    return this.#runs.some(({ body }) => body?.isOpen === true);
  }

  /** What the handler is called for. */
  get current(): Call {
    return this.#handled ?? this.call;
  }

  get #isOver(): boolean {
    return this.#overAt < Infinity;
  }

  /** The inner interceptors begin. */
  begin(): void {
    if (this.#hasEnded) this.#find('begins although nobody waits for it');
    this.hasBegun = true;
    this.#lockHere = AsyncLocalStorage.bind(currentLock);
    if (this.call.way === 'arguments') return;
    // A lock that is new may also be that of a call around it, which has come meanwhile.
    this.#model.noticeLocks(this.call.inside);
    if (this.#model.isNew(currentLock())) this.#enter();
    else this.#model.enterWithout(this.call);
  }

  /** The handler is called, once more where an inner interceptor retries. */
  beginRun(kind: Kind): Call {
    this.#model.checkContext(this.inside);
    // That others have the lock is known to the first run, not to those that try again.
    const isKnown = this.call.isWithout && this.#handled === null;
    if (this.call.body === null && !isKnown) this.#model.ask(this.call);
    // While it is at work, that is a call inside of its lock.
    const call = { ...this.call, way: kind, inside: this.inside };
    return (this.#handled = this.isAtWork ? this.#model.begin(call) : this.#beginPart(kind));
  }

  /** The handler gives what is to be read. */
  stream(run: Call): void {
    this.streamed = run;
    this.#model.noticeLocks(this.inside);
    this.#isKept = this.call.body !== null;
  }

  /** An inner interceptor answers with a stream of its own. */
  beginStream(): Call {
    const run = this.#beginPart('steps');
    this.stream(run);
    return run;
  }

  noticeLock(): void {
    const lock = this.#lockHere?.();
    if (lock === undefined || !this.#model.isNew(lock)) return;
    this.#model.admit(this.inside, lock);
    if (this.#isOver) this.inside.end();
  }

  onRun(run: Call): void {
    const body = this.call.body ?? this.#enter();
    const isLate = this.#overAt < this.#model.now && run !== this.streamed;
    if (isLate) this.#find('runs although its response is over');
    if (this.#isOver) body.end();
    run.inside = body;
    run.fate = body.owner ?? body;
  }

  /** The inner interceptors are done, or dropped. */
  over(error?: unknown): void {
    this.#overAt = this.#model.now;
    this.#wasBusy = this.isBusy;
    this.#error = originalOf(error);
    this.call.body?.end();
  }

  /** The response has ended, as the outer interceptors see it. */
  end(error?: unknown): void {
    const original = originalOf(error);
    const fault = faultOfTranslation(error, this.call.client) ?? this.#faultOf(original);
    this.#model.findOf(this.call, fault);
    this.#model.checkContext(this.call.inside);
    this.drop();
  }

  /** The response is over, and nobody waits for its end any more. */
  drop(): void {
    const isBegun = [...this.#left].some(({ body }) => body === null) || this.streamed !== null;
    this.isSending = this.given.length > 0 && (isBegun || this.isBusy);
    this.#hasEnded = true;
    this.#model.drop(this.call);
  }

  /** Nobody waits for a run any more, which may go on. */
  leaveRun(run: Call): void {
    this.#left.add(run);
    this.#model.drop(run);
  }

  /** Nobody reads on. */
  dropRuns(): void {
    const { body, client } = this.call;
    for (const run of this.#runs) this.#model.drop(run);
    const isUnread = this.streamed !== null && this.streamed.body === null;
    const isSilent = isUnread && client.transport === 'graphql';
    if (isSilent && body !== null) this.#model.forgive(body.signal);
  }

  #beginPart(way: Kind): Call {
    const { body } = this.call;
    const fate = body === null ? this.call.fate : (body.owner ?? body);
    const part = this.#model.begin({ ...this.call, way, inside: this.inside }, this, fate);
    this.#runs.push(part);
    return part;
  }

  #enter(): Body {
    const { client, fate } = this.call;
    // Who joins a lock does not wait.
    const hasLeft = client.leftAt < this.#model.now;
    if (hasLeft && fate === 'own') this.#find('runs although its client has left');
    return this.#model.enter(this.call, currentLock(), this.inside);
  }

  /** Whether the stream of a run waits to be read. What will not be sent is dropped. */
  #isUnread(run: Call): boolean {
    if (run !== this.streamed || !this.#isKept) return false;
    const { body, client } = this.call;
    if (body?.lock.isLost() === true) return false;
    const isSent = this.given.length > 0;
    // Nobody tells that something else was sent in its place: only the end of the lock drops it.
    if (client.transport === 'graphql' && isSent) return true;
    if (!this.#model.isUnderWay(run)) return false;
    return !this.#hasEnded || (isSent && !client.isClosed);
  }

  #faultOf(error: unknown): string | null {
    const { body } = this.call;
    if (!this.#isOver) {
      if (body !== null) return `ends before its response: ${String(error)}`;
      return faultOfFailure(this.call, error, this.#model.now);
    }
    if (!this.#wasBusy && body?.owner === null && body.lock.isValid) {
      return 'is over and still has its lock';
    }
    if (error instanceof LockLostError && error !== this.#error) return this.#faultOfLoss(error);
    if (error !== this.#error) return this.#hidden(error);
    // Who reads a stream is told while reading.
    const isTold = this.#wasBusy || error !== undefined || body === null || this.streamed !== null;
    if (!isTold && !body.wasHeld) return 'hides that its lock was lost';
    return this.#hasGot(this.given.length) ? null : this.#difference();
  }

  #faultOfLoss(error: LockLostError): string | null {
    const { body } = this.call;
    if (this.#error !== undefined) return this.#hidden(error);
    // Without a body, the lock came when the handler was not waited for any more.
    if (body === null) return null;
    if (this.#wasBusy || body.wasHeld) return `held its lock: ${String(error)}`;
    const handled = this.#handled;
    const result = handled?.way === 'promise' ? handled.body?.result : undefined;
    // Of runs side by side, it is that of the one whose lock it was.
    const isAmong = handled === null || this.#runs.includes(handled);
    if (isAmong && error.result !== result) return 'loses its result';
    // The last value must not say that all went well.
    const isCut = this.#hasGot(this.given.length - 1) || this.#hasGot(this.given.length);
    return isCut ? null : this.#difference();
  }

  #hasGot(count: number): boolean {
    const isSame = (value: unknown, index: number): boolean =>
      value === this.given[index] || isAsyncIterable(value);
    return this.got.length === Math.max(0, count) && this.got.every(isSame);
  }

  #hidden(error: unknown): string {
    return `hides ${String(this.#error)} behind ${String(error)}`;
  }

  #difference(): string {
    return `gives ${this.got.join()} for ${this.given.join()}`;
  }

  #find(fault: string): void {
    this.#model.findOf(this.call, fault);
  }
}
