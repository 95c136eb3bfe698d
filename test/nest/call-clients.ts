// Who makes calls at random, and what the transport of an endpoint tells: the endpoint of its client,
// and the client of a lock error.
import { EventEmitter } from 'node:events';
import { Writable } from 'node:stream';

import { HttpException } from '@nestjs/common';
import { RpcException } from '@nestjs/microservices';
import { WsException } from '@nestjs/websockets';
import { RedlockError } from 'nestjs-locked';

/** What an endpoint is asked over; RPC is that of gRPC, whose calls can be cancelled. */
export type Transport = 'http' | 'rpc' | 'ws' | 'graphql';

export const TRANSPORTS: readonly Transport[] = ['http', 'rpc', 'ws', 'graphql'];

/** Who makes a call, and may leave before it has ended; not over GraphQL, which does not tell. */
export class Client {
  /** Null for what is no endpoint. */
  readonly transport: Transport | null;
  leftAt = Infinity;
  readonly #abortion = new AbortController();
  readonly #response = new Writable();
  readonly #rpc = Object.assign(new EventEmitter(), { cancelled: false });

  constructor(transport: Transport | null) {
    this.transport = transport;
  }

  /** Gives up the wait of `using`, and leaves what goes on after the call. */
  get signal(): AbortSignal {
    return this.#abortion.signal;
  }

  /** What Nest calls an endpoint with after the data. */
  get rest(): readonly unknown[] {
    if (this.transport === 'http') return [this.#response];
    return this.transport === 'rpc' ? [undefined, this.#rpc] : [];
  }

  /** How many listeners wait for its leaving. */
  get listenerCount(): number {
    return this.#response.listenerCount('close') + this.#rpc.listenerCount('cancelled');
  }

  get hasLeft(): boolean {
    return this.leftAt < Infinity;
  }

  /** Whether nothing more is sent to it. */
  get isClosed(): boolean {
    return this.#response.closed;
  }

  leave(now: number): void {
    if (this.transport === 'graphql') return;
    this.leftAt = Math.min(this.leftAt, now);
    this.#abortion.abort();
    this.#response.destroy();
    if (this.#rpc.cancelled) return;
    this.#rpc.cancelled = true;
    this.#rpc.emit('cancelled');
  }

  /** It has all of its answer. */
  close(): void {
    if (!this.hasLeft) this.#response.end();
  }
}

/** What a lock error was before it was translated. */
export function originalOf(error: unknown): unknown {
  return error instanceof Error && error.cause instanceof RedlockError ? error.cause : error;
}

/** The status that an endpoint answers with; null where the error has none. */
export function statusOf(error: unknown): number | null {
  return error instanceof HttpException ? error.getStatus() : null;
}

/** What is wrong with what a client is told of a lock error; null where nothing is. */
export function faultOfTranslation(error: unknown, { transport }: Client): string | null {
  const original = originalOf(error);
  if (!(original instanceof RedlockError)) return null;
  const { code } = original;
  // A mistake in the program has no translation.
  const named = code === 'LOCK_REENTRY' ? undefined : code;
  const [told, due] =
    transport === 'http' ? [statusOf(error), STATUSES[code]] : [codeOf(error), named];
  return told === due ? null : `tells of ${String(original)} by ${String(told)}`;
}

const STATUSES = {
  LOCK_TAKEN: 423,
  NO_QUORUM: 503,
  LOCK_EXPIRED: 503,
  REDLOCK_CLOSED: 503,
  LOCK_LOST: 500,
  LOCK_REENTRY: null,
};

function codeOf(error: unknown): unknown {
  const isPackaged = error instanceof RpcException || error instanceof WsException;
  const told: unknown = isPackaged
    ? error.getError()
    : Reflect.get(Object(error) as object, 'extensions');
  return Reflect.get(Object(told) as object, 'code');
}
