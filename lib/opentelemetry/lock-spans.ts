// One span for acquiring a lock and one for holding it. The channels publish in the async context
// of the caller, whose active span is therefore the parent of both. An acquisition is published
// only when it is over, so its span is written afterwards, with the start of the call as its start.
import { SpanStatusCode, type Attributes, type Span, type Tracer } from '@opentelemetry/api';

import { systemEnvironment } from '../core/environment.js';
import { RedlockError } from '../core/errors.js';
import { TransientMap } from '../core/transient-map.js';
import type {
  AcquireMessage,
  ExtendMessage,
  LostMessage,
  ReleaseMessage,
} from '../nest/telemetry.js';
import { lossReasonOf, outcomeOf, type AcquireOutcome } from './attributes.js';

/** No errors: that others hold the lock, or that the caller gave up, is what locks are for. */
const expected: readonly AcquireOutcome[] = ['granted', 'taken', 'aborted'];

/** Writes spans from what the channels say about locks. */
export class LockSpans {
  readonly #tracer: Tracer;
  readonly #hasResourceNames: boolean;
  /** The spans of held locks, by owner id. */
  readonly #held = new TransientMap<string, Span>();

  constructor(tracer: Tracer, hasResourceNames: boolean) {
    this.#tracer = tracer;
    this.#hasResourceNames = hasResourceNames;
  }

  onAcquire(message: AcquireMessage, lock: Attributes): void {
    const { waited, attempts, error, ownerId, fencingToken } = message;
    const names = { 'nestjs_locked.resource.names': [...message.resources] };
    const attributes = this.#hasResourceNames ? { ...lock, ...names } : lock;
    const outcome = outcomeOf(message);
    const now = systemEnvironment.wallClock();
    const span = this.#tracer.startSpan('lock acquire', {
      startTime: now - waited,
      attributes: {
        ...attributes,
        'nestjs_locked.outcome': outcome,
        'nestjs_locked.attempts': attempts,
      },
    });
    if (error instanceof RedlockError && !expected.includes(outcome)) fail(span, error.code);
    span.end(now);
    if (ownerId === null || fencingToken === null) return;
    const options = { attributes: { ...attributes, 'nestjs_locked.fencing_token': fencingToken } };
    this.#held.set(ownerId, this.#tracer.startSpan('lock hold', options));
  }

  onExtend({ ownerId, remaining }: ExtendMessage): void {
    const validity = { 'nestjs_locked.remaining': remaining / 1_000 };
    this.#held.get(ownerId)?.addEvent('extended', validity);
  }

  onRelease({ ownerId }: ReleaseMessage): void {
    this.#end(ownerId);
  }

  onLost({ ownerId, reason }: LostMessage): void {
    const span = this.#held.get(ownerId);
    if (span === undefined) return;
    span.setAttribute('nestjs_locked.loss.reason', lossReasonOf(reason));
    fail(span, 'LOCK_LOST');
    this.#end(ownerId);
  }

  /** Ends the spans of locks whose end will not be published any more. */
  close(): void {
    for (const ownerId of [...this.#held.keys()]) this.#end(ownerId);
  }

  #end(ownerId: string): void {
    this.#held.get(ownerId)?.end();
    this.#held.delete(ownerId);
  }
}

// Without the error's message, which names the resources.
function fail(span: Span, code: string): void {
  span.setAttribute('error.type', code);
  span.setStatus({ code: SpanStatusCode.ERROR, message: code });
}
