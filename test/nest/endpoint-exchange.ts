import type { ExecutionContext } from '@nestjs/common';
import { ExternalContextCreator } from '@nestjs/core';

import { element } from '../simulation/random.js';
import type { Visit } from './call-methods.js';
import type { CallModel } from './call-model.js';
import type { Call, Kind, Request } from './calls.js';
import { EndpointTry } from './endpoint-model.js';

/** The methods, as Nest calls them. */
export interface Handlers {
  promise(...given: unknown[]): unknown;
  steps(...given: unknown[]): unknown;
  values(...given: unknown[]): unknown;
}

/** One request to an endpoint at random, and its answer. */
export class Exchange implements Visit {
  readonly request: Request;
  readonly kind: Kind;
  readonly tries: EndpointTry[] = [];
  /** What the last try has failed by. */
  error: unknown;

  constructor(request: Request, kind: Kind) {
    this.request = request;
    this.kind = kind;
  }

  get latest(): EndpointTry {
    return element(this.tries, this.tries.length - 1);
  }

  /** What the handler is called for. */
  get call(): Call {
    return this.latest.current;
  }

  /** Asks for the answer, as Nest's packages do, each for its transport. */
  send(handlers: Handlers): Promise<unknown> {
    const { kind } = this;
    const { client, domain } = this.request;
    const { rest, transport } = client;
    const creator = domain.application.get(ExternalContextCreator);
    const defaults = [undefined, undefined, undefined, undefined, undefined] as const;
    const handle = creator.create(handlers, handlers[kind], kind, ...defaults, transport ?? 'http');
    return handle(this, ...rest);
  }

  tryAgain(model: CallModel): EndpointTry {
    const latest = new EndpointTry(model, this.request);
    this.tries.push(latest);
    return latest;
  }
}

/** What an endpoint was asked, for its interceptors. */
export function exchangeOf(context: ExecutionContext): Exchange {
  return context.getArgByIndex<Exchange>(0);
}
