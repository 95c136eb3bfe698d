// One call of a `@Locked` endpoint, from the interceptor to the end of its response. The lock is
// the scope's, not the handler's: what inner interceptors do after the handler, such as
// committing a transaction, happens under it too.
import type { ExecutionContext } from '@nestjs/common';

import type { Lock } from '../core/lock.js';
import { contextScopes, runInScope, type ContextRunner } from './lock-context.js';
import type { Hold } from './lock-hold.js';
import type { LockedDefinition } from './locked-definition.js';
import { dropUnread, holdWhileOngoing } from './locked-result.js';
import { isStreamed } from './result-checks.js';

/** What came of asking for a method's own lock: null where `onTaken` has to decide. */
export interface Entry {
  readonly hold: Hold | null;
}

/** The scope that `LockedInterceptor` opened for this method's present call, if any. */
export function findScope(definition: LockedDefinition): EndpointScope | undefined {
  for (const scope of contextScopes()) if (scope.awaits(definition)) return scope;
  return undefined;
}

/** One call of a `@Locked` endpoint. */
export class EndpointScope {
  readonly context: ExecutionContext;
  /** Aborts when the response is over: who still waits for the lock then waits for nobody. */
  readonly signal: AbortSignal;
  readonly #definition: LockedDefinition;
  #entry: Entry | null = null;
  #isOver = false;
  #result: unknown;
  #hasAnswer = false;
  #isAbandoned = false;
  // What the handler returned, and what is sent for it, where that goes on.
  readonly #ongoing = new Set<unknown>();
  // The run of the handler under way, with a retrying interceptor one after another, and what is
  // sent of its answer: each until it has left.
  readonly #visits = new Set<Promise<void>>();

  constructor(definition: LockedDefinition, context: ExecutionContext, signal: AbortSignal) {
    this.#definition = definition;
    this.context = context;
    this.signal = signal;
  }

  /** Whether the response is done, so that later calls have to lock for themselves. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Whether the handler runs, or a stream that it returned is still read. */
  get isBusy(): boolean {
    return this.#visits.size > 0;
  }

  /** Whether anything of the response has come out of the inner interceptors. */
  get hasAnswer(): boolean {
    return this.#hasAnswer;
  }

  /** What is locked for this call, if anything is yet. */
  get resources(): readonly string[] | null {
    return this.#entry?.hold?.lock.resources ?? null;
  }

  /**
   * Whether a call of the method is the one that this scope, which is not over, was opened for.
   * While the handler runs it is not: a handler that calls itself is a second acquisition.
   */
  awaits(definition: LockedDefinition): boolean {
    return definition === this.#definition && !this.isBusy;
  }

  /** Makes `entry` the outcome of this call's acquisition. */
  admit(entry: Entry): void {
    this.#entry = entry;
  }

  /**
   * The handler comes in. It gets the scope's lock on loan; where there is none yet, what `open`
   * acquires becomes the scope's.
   */
  async enter(open: () => Promise<Entry>): Promise<Entry> {
    const leave = this.#startVisit();
    let entry: Entry;
    try {
      entry = this.#entry ?? (await open());
    } catch (error) {
      leave();
      throw error;
    }
    const { hold } = entry;
    // What is taken now may be free when an interceptor tries again.
    this.#entry = hold === null ? null : entry;
    if (hold !== null) {
      return {
        hold: this.#lend(hold, (result) => {
          this.#result = result;
          leave();
        }),
      };
    }
    leave();
    return entry;
  }

  /** Runs the inner interceptors, pipes and handler: in this scope, and under its lock. */
  run<T>(body: () => T): T {
    const inScope = (): T => runInScope(this, body);
    const hold = this.#entry?.hold ?? null;
    return hold === null ? inScope() : hold.run(inScope);
  }

  /**
   * Keeps the lock for an answer that is sent as it comes, also where that is not the handler's own
   * result but an Observable's value, or what an inner interceptor has made.
   * @returns What is to be sent in its place.
   */
  answerWith(answer: unknown): unknown {
    this.#hasAnswer = true;
    const hold = this.#entry?.hold ?? null;
    const isHttp = this.context.getType() === 'http';
    if (hold === null || !isHttp || !isStreamed(answer) || this.#ongoing.has(answer)) return answer;
    return holdWhileOngoing(answer, this.#lend(hold, this.#startVisit()));
  }

  /** The response is over: what nobody has begun to read for it, nobody will. */
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
    await this.#entry?.hold?.end(this.#result);
  }

  /** Releases when nothing of the handler runs any more. Never rejects. */
  async close(): Promise<void> {
    this.#isOver = true;
    // A response can end before its handler: a timeout, a client that hung up, a stream.
    await Promise.all(this.#visits);
    await this.#entry?.hold?.settle();
  }

  #lend({ lock }: Hold, leave: (result: unknown) => void): Hold {
    // In the scope too: a retry subscribes to an Observable from within what failed.
    const run: ContextRunner = (body) => this.run(body);
    const onOngoing = (result: unknown): void => {
      this.#ongoing.add(result);
      if (this.#isAbandoned) dropUnread(result);
    };
    return lend(lock, run, leave, onOngoing);
  }

  #startVisit(): () => void {
    let resolve: (() => void) | undefined;
    const left = new Promise<void>((done) => (resolve = done));
    this.#visits.add(left);
    return () => {
      this.#visits.delete(left);
      resolve?.();
    };
  }
}

/** The scope's lock as the handler sees it: its end is the end of the handler's use only. */
function lend(
  lock: Lock,
  run: ContextRunner,
  leave: (result: unknown) => void,
  onOngoing: (result: unknown) => void,
): Hold {
  let isOver = false;
  const end = (result?: unknown): Promise<void> => {
    isOver = true;
    leave(result);
    return Promise.resolve();
  };
  return {
    lock,
    run,
    onOngoing,
    get isOver() {
      return isOver;
    },
    end,
    settle: () => end(),
  };
}
