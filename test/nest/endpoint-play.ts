// The endpoints of calls at random: Nest calls them over all its transports, interceptors outside
// and inside of their locks try again, time out, answer by themselves and call more, and their
// clients leave.
import { UseInterceptors, type NestInterceptor, type Provider } from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { fromContext, LockedInterceptor, type LockedResource } from 'nestjs-locked';
import {
  catchError,
  concatMap,
  defaultIfEmpty,
  defer,
  fromEvent,
  map,
  mergeMap,
  NEVER,
  of,
  race,
  retry,
  takeUntil,
  tap,
  throwError,
  type Observable,
  type RetryConfig,
} from 'rxjs';

import { isAsyncIterable } from '../../lib/nest/result-checks.js';
import { originalOf } from './call-faults.js';
import { Services, type Visit } from './call-methods.js';
import type { Stage } from './call-stage.js';
import type { Kind, Origin, Request } from './calls.js';
import { Exchange, exchangeOf, type Handlers } from './endpoint-exchange.js';
import type { EndpointTry } from './endpoint-model.js';

const KINDS: readonly Kind[] = ['promise', 'steps', 'values'];
/** What endpoints lock whose resource is a literal. */
export const LITERAL = ['a', 'b'];

/** Asks endpoints of the play's lock domains. */
export class EndpointPlay {
  readonly providers: readonly Provider[];
  readonly #stage: Stage;
  readonly #services: Readonly<Record<Origin, Services>>;

  constructor(stage: Stage) {
    this.#stage = stage;
    this.#services = {
      literal: this.#servicesOf(LITERAL),
      context: this.#servicesOf(fromContext((context) => exchangeOf(context).request.resources)),
      arguments: this.#servicesOf(({ call }: Visit) => call.resources),
    };
    const outer = { intercept: this.#aroundTries };
    this.providers = [
      { provide: APP_INTERCEPTOR, useValue: outer },
      ...Object.values(this.#services).flatMap(({ all }) => all),
    ];
  }

  /** Makes a request, as Nest does, and reads what it is answered. */
  async ask(request: Request, origin: Origin): Promise<void> {
    const { dice, model } = this.#stage;
    const { client, domain, inside } = request;
    const handlers: Handlers = domain.application.get(this.#services[origin].of(request));
    const exchange = new Exchange(request, dice.pick(KINDS));
    try {
      const answer = await exchange.send(handlers);
      model.checkContext(inside);
      await this.#read(exchange, answer);
    } catch (error) {
      if (error !== exchange.error) model.findOf(request, `fails by ${String(error)}`);
      model.checkContext(inside);
    }
    for (const each of exchange.tries) each.dropRuns();
    const sending = exchange.tries.filter(({ isSending }) => isSending).length;
    const listening = client.listenerCount;
    if (listening > sending) model.findOf(request, `has ${listening} listeners on its client`);
    client.close();
  }

  async #read({ latest, request }: Exchange, answer: unknown): Promise<void> {
    const { dice, model } = this.#stage;
    const { streamed } = latest;
    if (!isAsyncIterable(answer) || streamed === null || dice.chance(0.1)) return;
    const reader = { ...request, isRude: latest.call.fate === 'own' };
    await model.judge(streamed, this.#stage.readSteps(answer, reader));
    model.checkContext(request.inside);
  }

  #servicesOf(resource: LockedResource): Services {
    const services = new Services(this.#stage, resource);
    for (const service of services.all) UseInterceptors(...this.#aroundHandlers())(service);
    return services;
  }

  #aroundHandlers(): (NestInterceptor | typeof LockedInterceptor)[] {
    const response = { intercept: this.#aroundResponse };
    const runs = { intercept: this.#aroundRuns };
    // One LockedInterceptor acts for all, however many there are and wherever they are bound.
    return this.#stage.dice.pick([
      [response, runs],
      [LockedInterceptor, response, runs],
      [response, LockedInterceptor, runs],
      [response, runs, LockedInterceptor],
    ]);
  }

  /** Outside of the lock, which each try acquires anew. */
  readonly #aroundTries: NestInterceptor['intercept'] = (context, next) => {
    const { dice, model } = this.#stage;
    const exchange = exchangeOf(context);
    const { client, inside } = exchange.request;
    const tries = defer(() => {
      model.checkContext(inside);
      const latest = exchange.tryAgain(model);
      return next.handle().pipe(
        tap({
          next: (value) => {
            model.checkContext(inside);
            latest.got.push(value);
          },
          error: (error) => latest.end((exchange.error = error)),
          complete: () => latest.end(),
          unsubscribe: () => latest.drop(),
        }),
      );
    }).pipe(retry(this.#atMostTwice()));
    const isLeft = fromEvent(client.signal, 'abort');
    // As Nest does where the client of a gateway, or of server-sent events, leaves.
    const isEnded = client.transport === 'ws' || dice.chance(0.3);
    return isEnded ? tries.pipe(takeUntil(isLeft), defaultIfEmpty('left')) : tries;
  };

  /** Inside of the lock, as a transaction. */
  readonly #aroundResponse: NestInterceptor['intercept'] = (context, next) => {
    const { dice } = this.#stage;
    const { kind, latest, request } = exchangeOf(context);
    // Of values that come one by one none is a stream, and other transports send none.
    const maySend = kind === 'promise' && request.client.transport === 'http';
    latest.begin();
    const answered = (): Observable<unknown> =>
      dice.chance(0.1) ? of('of an interceptor') : next.handle();
    const response = defer(() => this.#act(latest)).pipe(
      concatMap(answered),
      concatMap((answer: unknown) => this.#handOn(latest, answer)),
      map((answer) => (maySend ? this.#inStead(latest, answer) : answer)),
    );
    return (dice.chance(0.3) ? this.#timed(latest, response) : response).pipe(
      tap({
        next: (value) => latest.given.push(value),
        error: (error) => latest.over(error),
        complete: () => latest.over(),
        unsubscribe: () => latest.over(),
      }),
    );
  };

  /** Does not wait for the handler too long. */
  #timed(latest: EndpointTry, response: Observable<unknown>): Observable<unknown> {
    const { dice } = this.#stage;
    const fallBack = async (): Promise<string> => {
      await this.#act(latest);
      return 'in time';
    };
    const timed = race(response, this.#timeout());
    return dice.chance(0.5) ? timed : timed.pipe(catchError(fallBack));
  }

  /** Fails after a while, if it is in force then. */
  #timeout(isInForce = () => true): Observable<never> {
    const failure = new Error('of a timeout');
    return defer(() => this.#pause(100)).pipe(
      mergeMap(() => (isInForce() ? throwError(() => failure) : NEVER)),
    );
  }

  async #act({ inside }: EndpointTry): Promise<void> {
    const { dice, model } = this.#stage;
    model.checkContext(inside);
    if (dice.chance(0.3)) await this.#stage.actIn(inside);
  }

  async #handOn(latest: EndpointTry, answer: unknown): Promise<unknown> {
    const { dice } = this.#stage;
    await this.#act(latest);
    if (dice.chance(0.1)) throw new Error('of an interceptor');
    if (isAsyncIterable(answer) && dice.chance(0.3)) return passOn(answer);
    return dice.chance(0.8) ? answer : 'of an interceptor';
  }

  /** The answer, or a stream that the lock is kept for. */
  #inStead(latest: EndpointTry, answer: unknown): unknown {
    const { dice } = this.#stage;
    const isLocked = latest.call.body !== null;
    return isLocked && dice.chance(0.2) ? this.#stage.runInSteps(latest.beginStream()) : answer;
  }

  /** Around the handler alone, which it may run again under the same lock, or while it is at work. */
  readonly #aroundRuns: NestInterceptor['intercept'] = (context, next) => {
    const { dice, model } = this.#stage;
    const { latest, kind } = exchangeOf(context);
    const runs = defer(() => {
      const { isAtWork, inside } = latest;
      // With the lock lost, it would wait for another one, for nobody.
      if (isAtWork && !inside.lock.isValid) throw new Error('of an interceptor');
      const run = latest.beginRun(kind);
      let result: unknown;
      const handled = next.handle().pipe(
        tap({
          next: (value) => {
            result = value;
            if (isAsyncIterable(value)) latest.stream(run);
          },
          error: (error) => model.end(run, undefined, originalOf(error)),
          complete: () => {
            if (latest.streamed !== run) model.end(run, result, undefined);
          },
          unsubscribe: () => latest.leaveRun(run),
        }),
      );
      if (!dice.chance(0.3)) return handled;
      return race(
        handled,
        this.#timeout(() => run.body !== null),
      );
    });
    return runs.pipe(retry(this.#atMostTwice()));
  };

  #atMostTwice(): RetryConfig {
    return { count: this.#stage.dice.integer(0, 2), delay: () => this.#pause(40) };
  }

  /** What is begun after it does not end together with what is over by now. */
  #pause(limit: number): Promise<void> {
    return this.#stage.sleep(1 + this.#stage.upTo(limit));
  }
}

async function* passOn(steps: AsyncIterable<unknown, unknown>): AsyncGenerator<unknown, unknown> {
  return yield* steps;
}
