// One call of a `@Locked` endpoint, from the interceptor to the end of its response. The lock
// belongs to the scope, not to the handler: what inner interceptors do after the handler, such as
// committing a transaction, happens under it too.
import type { ExecutionContext } from '@nestjs/common';

import { captureHeld, captureInScope, contextScopes, type ContextLock } from './lock-context.js';
import { holdOf, type Hold } from './lock-hold.js';
import type { LockedDefinition } from './locked-definition.js';
import { dropUnread, holdWhileOngoing } from './locked-result.js';
import { isStreamed } from './result-checks.js';

/** The scope that `LockedInterceptor` opened for the current call of this endpoint, if any. */
export function findScope(definition: LockedDefinition): EndpointScope | undefined {
  for (const scope of contextScopes()) if (scope.definition === definition) return scope;
  return undefined;
}

/** One call of a `@Locked` endpoint. */
export class EndpointScope {
  readonly definition: LockedDefinition;
  readonly context: ExecutionContext;
  /** Aborts when the response is over or its client is gone: waiting for the lock ends. */
  readonly signal: AbortSignal;
  /** Null where others hold the lock; undefined as long as nobody has asked for it. */
  #hold: Hold | null | undefined;
  #lookAtHeld: () => ContextLock | null = () => null;
  #isOver = false;
  #result: unknown;
  #hasAnswer = false;
  #isAbandoned = false;
  // Results that go on after the call: the handler's own, and what is sent in their place.
  readonly #ongoing = new Set<unknown>();
  // Uses of the lock that have not ended: runs of the handler (a retrying interceptor starts one
  // after another), and streamed answers.
  readonly #uses = new Set<Promise<void>>();

  constructor(definition: LockedDefinition, context: ExecutionContext, signal: AbortSignal) {
    this.definition = definition;
    this.context = context;
    this.signal = signal;
  }

  /** Whether the response is done, so that later calls have to lock for themselves. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * Whether it awaits the handler. Not while that runs: if it calls itself, that is a second
   * acquisition.
   */
  get isAwaiting(): boolean {
    return !this.#isOver && !this.isBusy;
  }

  /** Whether the handler runs, or a stream of the response is still being read. */
  get isBusy(): boolean {
    return this.#uses.size > 0;
  }

  /** Whether the inner interceptors have emitted any of the response. */
  get hasAnswer(): boolean {
    return this.#hasAnswer;
  }

  /** What all that runs in this scope holds, once somebody has acquired it and until it ends. */
  get held(): ContextLock | null {
    return this.#lookAtHeld();
  }

  /** Whether the scope's lock is of all these resources, or may become so: there is none yet. */
  covers(resources: readonly string[]): boolean {
    const locked = this.#hold?.lock.resources;
    return locked === undefined || resources.every((resource) => locked.includes(resource));
  }

  /** Makes `hold` the outcome of this call's acquisition; null where others hold the lock. */
  admit(hold: Hold | null): void {
    this.#hold = hold;
    if (hold !== null) this.#lookAtHeld = hold.run(captureHeld);
  }

  /**
   * Lends the scope's lock to the handler, which begins. Where there is none yet, what `open`
   * acquires becomes the scope's. Resolves to null where others hold it.
   */
  async enter(open: () => Promise<Hold | null>): Promise<Hold | null> {
    const endUse = this.#startUse();
    try {
      if (this.#hold === undefined) this.admit(await open());
    } catch (error) {
      endUse();
      throw error;
    }
    const hold = this.#hold;
    if (!hold) {
      // Not remembered: the resource may be free when an interceptor retries.
      this.#hold = undefined;
      endUse();
      return null;
    }
    const onEnd = (result: unknown): void => {
      this.#result = result;
      endUse();
    };
    return this.#lend(hold, onEnd);
  }

  /** Runs the inner interceptors, pipes and handler in this scope and under its lock. */
  run<T>(body: () => T): T {
    return captureInScope(this)(body);
  }

  /**
   * Keeps the lock until a streamed answer is done, even if that is not the handler's own result
   * but a value of an Observable, or made by an inner interceptor.
   * @returns What to send in its place.
   */
  answerWith(answer: unknown): unknown {
    this.#hasAnswer = true;
    const hold = this.#hold;
    const isHttp = this.context.getType() === 'http';
    if (!hold || !isHttp || !isStreamed(answer) || this.#ongoing.has(answer)) return answer;
    return holdWhileOngoing(answer, this.#lend(hold, this.#startUse()));
  }

  /** Drops what nobody has begun to read: the response is over, so nobody will. */
  abandon(): void {
    this.#isAbandoned = true;
    for (const result of this.#ongoing) dropUnread(result);
  }

  /**
   * Releases after a response that succeeded.
   * @throws LockLostError, with the handler's result, where the lock was not held to the end.
   */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#hold?.end(this.#result);
  }

  /** Releases once the handler and its streams have ended. Never rejects. */
  async close(): Promise<void> {
    this.#isOver = true;
    // A response can end before its handler: a timeout, a client that hung up, a stream.
    await Promise.all(this.#uses);
    await this.#hold?.endQuietly();
  }

  // A hold of the scope's lock whose end ends only one use of it. It runs in the scope: a retry
  // subscribes to an Observable from within the run that failed.
  #lend({ lock }: Hold, onEnd: (result: unknown) => void): Hold {
    const onOngoing = (result: unknown): void => {
      this.#ongoing.add(result);
      if (this.#isAbandoned) dropUnread(result);
    };
    const end = (result: unknown): void => {
      onEnd(result);
      // After the response, nobody else tells the reader that the lock was not held to the end.
      if (this.#isOver && !lock.isValid) throw lock.lostError(result);
    };
    return holdOf(lock, captureInScope(this), end, onOngoing);
  }

  /** Returns how to end the use. */
  #startUse(): () => void {
    let resolve: (() => void) | undefined;
    const ended = new Promise<void>((done) => (resolve = done));
    this.#uses.add(ended);
    return () => {
      this.#uses.delete(ended);
      resolve?.();
    };
  }
}
