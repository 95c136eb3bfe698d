// The network between one worker and one node: it delays, loses its way in one direction or both,
// breaks, and mixes up replies as a broken proxy does. What it holds it delivers later, also for a client that has given up meanwhile.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

import { reset } from '../support/tcp-proxy.js';

import type { Milliseconds } from 'nestjs-locked';

/** One direction of all connections of a path. */
interface Lane {
  isHeld: boolean;
  latency: Milliseconds;
  /** How often what comes next is delivered. */
  copies: number;
}

/** A proxy on 127.0.0.1 for one server and one client, over however many connections. */
export class NetworkPath {
  readonly #server: Server;
  readonly #requests: Lane = { isHeld: false, latency: 0, copies: 1 };
  readonly #replies: Lane = { isHeld: false, latency: 0, copies: 1 };
  readonly #streams = new Set<Stream>();

  private constructor(targetPort: number) {
    this.#server = createServer((client) => this.#accept(client, targetPort));
  }

  static async open(targetPort: number): Promise<NetworkPath> {
    const path = new NetworkPath(targetPort);
    path.#server.listen(0, '127.0.0.1');
    await once(path.#server, 'listening');
    return path;
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  hold(what: { readonly requests: boolean; readonly replies: boolean }): void {
    this.#requests.isHeld = what.requests;
    this.#replies.isHeld = what.replies;
  }

  delay(latency: Milliseconds): void {
    this.#requests.latency = this.#replies.latency = latency / 2;
  }

  /** Delivers the next replies, of one connection, so many times, and goes on as before. */
  repeatReplies(copies: number): void {
    this.#replies.copies = copies;
  }

  /** Breaks all connections; what was on the way is lost. */
  reset(): void {
    for (const stream of [...this.#streams]) stream.destroy();
  }

  /** Delivers what was held, and is fast again. */
  heal(): void {
    this.hold({ requests: false, replies: false });
    this.delay(0);
    for (const stream of [...this.#streams]) stream.deliver();
  }

  async close(): Promise<void> {
    this.reset();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #accept(client: Socket, targetPort: number): void {
    const server = connect({ port: targetPort, host: '127.0.0.1', noDelay: true });
    client.setNoDelay(true);
    for (const [from, to, lane] of [
      [client, server, this.#requests],
      [server, client, this.#replies],
    ] as const) {
      const stream = new Stream(from, to, lane, () => this.#streams.delete(stream));
      this.#streams.add(stream);
    }
  }
}

/** One direction of one connection: a queue that keeps the order. */
class Stream {
  readonly #queue: { readonly chunk: Buffer; readonly dueAt: Milliseconds }[] = [];
  #hasEnded = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly from: Socket,
    private readonly to: Socket,
    private readonly lane: Lane,
    private readonly onOver: () => void,
  ) {
    from.on('data', (chunk) => this.#take(chunk));
    from.on('error', () => undefined);
    from.on('close', () => {
      this.#hasEnded = true;
      this.deliver();
    });
  }

  deliver(): void {
    clearTimeout(this.#timer);
    if (this.lane.isHeld) return;
    const now = performance.now();
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      if (next.dueAt > now && this.lane.latency > 0) {
        this.#timer = setTimeout(() => this.deliver(), next.dueAt - now);
        return;
      }
      this.#queue.shift();
      if (this.to.writable) this.to.write(next.chunk);
    }
    if (!this.#hasEnded) return;
    this.onOver();
    // After what was written: a client that gave up does not take its commands back.
    this.to.destroySoon();
  }

  destroy(): void {
    this.#queue.length = 0;
    reset(this.from);
  }

  #take(chunk: Buffer): void {
    const dueAt = performance.now() + this.lane.latency;
    for (let copy = 0; copy < this.lane.copies; copy += 1) this.#queue.push({ chunk, dueAt });
    this.lane.copies = 1;
    this.deliver();
  }
}
