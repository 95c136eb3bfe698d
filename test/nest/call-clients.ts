import { EventEmitter } from 'node:events';
import { Writable } from 'node:stream';

/** What endpoints are asked over; RPC is that of gRPC, whose calls can be cancelled. */
export const TRANSPORTS = ['http', 'rpc', 'ws', 'graphql'] as const;

type Transport = (typeof TRANSPORTS)[number];

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
