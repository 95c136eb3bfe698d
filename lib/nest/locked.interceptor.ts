import {
  HttpException,
  Inject,
  Injectable,
  Optional,
  type CallHandler,
  type ExecutionContext,
  type HttpServer,
  type NestInterceptor,
} from '@nestjs/common';
import { HttpAdapterHost, ModuleRef } from '@nestjs/core';
import {
  catchError,
  defer,
  map,
  Observable,
  type Observer,
  type Subscriber,
  type Subscription,
} from 'rxjs';

import { inMicrotask } from '../core/environment.js';
import { RedlockError } from '../core/errors.js';
import { whenClientLeaves, whenSent } from './call-client.js';
import { EndpointScope } from './endpoint-scope.js';
import { captureContext, type ContextRunner } from './lock-context.js';
import { definitionOf, type LockedDefinition } from './locked-definition.js';
import { acquireHold } from './locked-method.js';
import { nameResources, originOf } from './locked-resource.js';
import { getRedlockToken } from './redlock.tokens.js';
import {
  resolveHttpStatus,
  toTransportError,
  translateSteps,
  type ResolvedHttpStatus,
} from './transport-errors.js';
import type { RedlockService } from './redlock.service.js';

/** Token of the {@link ResolvedHttpStatus} of the application. */
export const httpStatusToken = Symbol.for('nestjs-locked.http-status');

// Set on the execution context, which all interceptors of a call share, while the response is under
// way. Where there are several LockedInterceptors (one per lock domain, or one bound by hand as
// well), the first acts for all.
const handledKey = Symbol.for('nestjs-locked.handled');

/**
 * Keeps the lock of a `@Locked` endpoint until its whole response is done, and turns lock errors,
 * including those of locks deeper in the call, into the transport's own. `RedlockModule` registers
 * it for all endpoints; with `interceptor: false`, bind it where you want it.
 *
 * A literal resource, or `fromContext`, is acquired here: after the guards, before the
 * interceptors bound after this one, the pipes and the handler. A function of the arguments is
 * acquired when the handler is entered. Either way, a transaction that an inner interceptor opens
 * commits inside the lock. An `APP_INTERCEPTOR` of the root module, or of a module imported before
 * `RedlockModule`, is not an inner one: Nest runs it first.
 *
 * Over HTTP, WebSocket and gRPC, a call whose client leaves while it waits for its lock does not
 * run. A gRPC client also leaves by cancelling the call, or when its deadline is over.
 *
 * The lock waits for a handler's unfinished stream, even when the client has its response, unless
 * nobody has begun to read the stream by then. That is not known over GraphQL, where only `maxHold`
 * ends the lock of a stream that an inner interceptor has answered something else for. It waits for
 * what a handler writes by itself, with `@Res()`, only if the handler awaits the end of that.
 *
 * Over HTTP: 423 for taken, 503 for no quorum, expired and closed, both with `Retry-After` (1 s
 * where nothing better is known), 500 for lost. Otherwise `RpcException`,
 * `WsException`, or a GraphQL error with `extensions.code`. The original is the `cause`. Handlers
 * of events (`@EventPattern`) answer nobody: there it stays the original, which Nest logs.
 *
 * Errors of guards do not pass through here, nor do those of GraphQL's field resolvers without
 * `fieldResolverEnhancers: ['interceptors']`. In a hybrid application `connectMicroservice` needs
 * `inheritAppConfig: true`, as for all global interceptors. Nest 11 applies none of these to
 * gateways, which need `@UseInterceptors(LockedInterceptor)`.
 */
@Injectable()
export class LockedInterceptor implements NestInterceptor {
  readonly #moduleRef: ModuleRef;
  readonly #adapterHost: HttpAdapterHost;
  readonly #httpStatus: ResolvedHttpStatus;

  /** Called by Nest. Where no module provides statuses, the defaults are used. */
  constructor(
    @Inject(ModuleRef) moduleRef: ModuleRef,
    @Inject(HttpAdapterHost) adapterHost: HttpAdapterHost,
    @Optional() @Inject(httpStatusToken) httpStatus: ResolvedHttpStatus = resolveHttpStatus(),
  ) {
    this.#moduleRef = moduleRef;
    this.#adapterHost = adapterHost;
    this.#httpStatus = httpStatus;
  }

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    // Of several interceptors the innermost translates, by the statuses of the first, which leaves
    // them on the context that all share.
    const shared: ExecutionContext & SharedStatuses = context;
    const httpStatus = (shared[httpStatusToken] ??= this.#httpStatus);
    const definition = definitionOf(context.getHandler(), context.getClass());
    const response =
      definition === undefined ? next.handle() : this.#respondInScope(definition, context, next);
    const translate = async (error: unknown): Promise<unknown> => {
      if (!(error instanceof RedlockError)) return error;
      const httpServer = this.#adapterHost.httpAdapter as HttpServer | undefined;
      return toTransportError(error, context, httpStatus, httpServer);
    };
    const translated = response.pipe(
      catchError(async (error: unknown) => {
        throw await translate(error);
      }),
    );
    if (!opensSubscription(context)) return translated;
    // Its steps are taken when the response, which is their iterable, is over.
    return translated.pipe(map((answer) => translateSteps(answer, translate)));
  }

  #respondInScope(
    definition: LockedDefinition,
    context: ExecutionContext,
    next: CallHandler,
  ): Observable<unknown> {
    return new Observable((subscriber) => {
      if (handledKey in context) return next.handle().subscribe(subscriber);
      Object.defineProperty(context, handledKey, { value: true, configurable: true });
      const cancel = new AbortController();
      const unwatch = whenClientLeaves(context, () => cancel.abort(clientGoneException()));
      const scope = new EndpointScope(definition, context, cancel.signal);
      const outside = captureContext();
      let response: Subscription | undefined;
      this.#acquire(definition, scope).then(
        () => {
          // Dropped: the lock was acquired before the cancellation took effect.
          if (subscriber.closed) return void scope.close();
          response = scope.run(() =>
            defer(() => next.handle())
              // Not in the responder, where an answer that throws when looked at would end the
              // process.
              .pipe(map((answer) => scope.answerWith(answer)))
              .subscribe(responder(scope, runIn(outside, subscriber))),
          );
        },
        (error: unknown) => subscriber.error(error),
      );
      return () => {
        // An outer interceptor may retry with the same context: that is a response of its own.
        Reflect.deleteProperty(context, handledKey);
        unwatch();
        cancel.abort();
        response?.unsubscribe();
        if (!scope.hasAnswer) scope.abandon();
        else if (scope.isBusy) whenSent(context, () => scope.abandon());
        void scope.close();
      };
    });
  }

  async #acquire(definition: LockedDefinition, scope: EndpointScope): Promise<void> {
    const { method, resource, domain } = definition;
    if (originOf(resource) === 'arguments') return;
    const names = nameResources(method, resource, { context: scope.context });
    const service = this.#moduleRef.get<RedlockService>(getRedlockToken(domain), { strict: false });
    scope.admit(await acquireHold(service, definition, names, scope.signal));
  }
}

interface SharedStatuses {
  [httpStatusToken]?: ResolvedHttpStatus | undefined;
}

/** Whether it is a call by which a client of GraphQL subscribes. */
function opensSubscription(context: ExecutionContext): boolean {
  if (context.getType<string>() !== 'graphql') return false;
  const info = context.getArgByIndex<Info | undefined>(3);
  // The fields of its events are resolved in the same operation, further down the path.
  return info?.operation?.operation === 'subscription' && info.path?.prev === undefined;
}

/** What GraphQL tells a resolver of the call. */
interface Info {
  readonly operation?: { readonly operation: string };
  readonly path?: { readonly prev: unknown };
}

/**
 * Passes the response on. Its end follows once the lock is released, or at once if it must not
 * wait. A last value is sent with the end: gateways and message handlers answer with the first
 * value, and that answer must not say "done" when the lock was lost.
 */
function responder(scope: EndpointScope, outer: Observer<unknown>): Observer<unknown> {
  let latest: { readonly value: unknown } | null = null;
  const passOn = (): void => {
    const kept = latest;
    latest = null;
    if (kept !== null) outer.next(kept.value);
  };
  return {
    next: (value) => {
      passOn();
      latest = { value };
      // A last value and its end come in the same turn; a stream that goes on must not be held up.
      inMicrotask(passOn);
    },
    error: (error) => {
      passOn();
      // Busy: an inner timeout while the handler is still at work, for which the teardown waits.
      if (scope.isBusy) outer.error(error);
      else void scope.close().then(() => outer.error(error));
    },
    complete: () => {
      const last = latest;
      latest = null;
      const complete = (): void => {
        if (last !== null) outer.next(last.value);
        outer.complete();
      };
      // Busy: the response is a stream, read from now on, or the handler is still at work; the
      // teardown waits for its close.
      if (scope.isBusy) complete();
      else scope.end().then(complete, (error: unknown) => outer.error(error));
    },
  };
}

/**
 * Outer interceptors do not hold the lock, not even while the handler does: what they call, as in
 * a retry, acquires anew.
 */
function runIn(outside: ContextRunner, subscriber: Subscriber<unknown>): Observer<unknown> {
  return {
    next: (value) => outside(() => subscriber.next(value)),
    error: (error) => outside(() => subscriber.error(error)),
    complete: () => outside(() => subscriber.complete()),
  };
}

/** Ends a call whose client left before it had its lock: no fault, so Nest does not log it. */
function clientGoneException(): HttpException {
  return new HttpException('The client has gone before the lock was acquired', 499);
}
