// A TCP connection to a server on this machine that can be made slow, as a far one is.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Milliseconds } from 'nestjs-locked';

export class DelayedLink {
  /** How long the server's answers take, in ms. @default 0 */
  delay: Milliseconds = 0;
  readonly #server: Server;

  private constructor(targetPort: number) {
    this.#server = createServer((client) => this.#accept(client, targetPort));
    // Ends with the process, and does not keep it alive.
    this.#server.unref();
  }

  /** Listens on 127.0.0.1 for clients of the server on `targetPort`, now or later. */
  static async open(targetPort: number): Promise<DelayedLink> {
    const link = new DelayedLink(targetPort);
    link.#server.listen(0, '127.0.0.1');
    await once(link.#server, 'listening');
    return link;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  #accept(client: Socket, targetPort: number): void {
    const server = connect({ port: targetPort, host: '127.0.0.1' });
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
    }
    client.pipe(server);
    client.once('close', () => server.destroy());
    this.#deliverLate(server, client);
  }

  // In order even when the delay changes: each piece waits for its time and for the one before.
  #deliverLate(server: Socket, client: Socket): void {
    let delivered = Promise.resolve();
    let waiting = 0;
    server.on('data', (piece) => {
      if (this.delay === 0 && waiting === 0) {
        client.write(piece);
        return;
      }
      const due = sleep(this.delay);
      waiting += 1;
      delivered = delivered
        .then(() => due)
        .then(() => {
          waiting -= 1;
          client.write(piece);
        });
    });
    server.once('close', () => client.destroy());
  }
}
