// What a transport tells of a call's client: whether it has its answer, or waits for one no longer.
import { Stream } from 'node:stream';

import { afterMicrotasks } from '../core/environment.js';
import type { ExecutionContext } from '@nestjs/common';

/**
 * Calls `listener` when an answer has been sent or its client is gone. Never for GraphQL, where
 * what a resolver has returned is read later.
 */
export function whenSent(context: ExecutionContext, listener: () => void): void {
  const transport = context.getType<'http' | 'rpc' | 'ws' | 'graphql'>();
  // By then, what these transports were given is being read, if it ever will be.
  if (transport === 'rpc' || transport === 'ws') afterMicrotasks(listener);
  whenClosed(responseOf(context), listener);
}

/**
 * Calls `listener` when the client leaves before the call is answered: that of an HTTP call by
 * disconnecting, that of gRPC also by cancelling the call or when its deadline is over. Not after
 * the returned function is called, as an outer interceptor may try many times for one response.
 */
export function whenClientLeaves(context: ExecutionContext, listener: () => void): () => void {
  const response = responseOf(context);
  const onClose = (): void => {
    if (response?.writableEnded === false) listener();
  };
  whenClosed(response, onClose);
  // Nest ends by itself what it runs for others that are gone, but not gRPC's unary calls.
  const call = context.getArgByIndex<GrpcCall | undefined>(2);
  const isCall = context.getType() === 'rpc' && typeof call?.cancelled === 'boolean';
  if (isCall && call.cancelled) listener();
  else if (isCall) call.once('cancelled', listener);
  return () => {
    response?.off('close', onClose);
    if (isCall) call.off('cancelled', listener);
  };
}

/** Node's response to an HTTP call, which Fastify's reply has inside; undefined if it has none. */
function responseOf(context: ExecutionContext): ServerResponse | undefined {
  if (context.getType() !== 'http') return undefined;
  const response = context.switchToHttp().getResponse<Reply | undefined>();
  const raw = response?.raw ?? response;
  return raw instanceof Stream ? raw : undefined;
}

function whenClosed(response: ServerResponse | undefined, listener: () => void): void {
  // Only the stream inside tells it of HTTP/2.
  const isClosed = response?.closed ?? response?.stream?.destroyed;
  if (isClosed === true) listener();
  else response?.once('close', listener);
}

/** Node's response, of HTTP/1 or HTTP/2. */
interface ServerResponse extends Stream {
  readonly closed?: boolean;
  readonly stream?: { readonly destroyed: boolean };
  readonly writableEnded?: boolean;
}

/** What a handler of gRPC gets last. */
interface GrpcCall extends Pick<Stream, 'off' | 'once'> {
  readonly cancelled?: boolean;
}

interface Reply extends ServerResponse {
  readonly raw?: ServerResponse;
}
