// A network that is slower than the others, in both directions together by `delay`.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export interface DelayProxy {
  readonly url: string;
  /** Round-trip time that is added from now on, in ms. Never reorders. */
  delay: number;
  close(): Promise<void>;
}

/** Starts a proxy on 127.0.0.1 for a server on `targetPort`. */
export async function startDelayProxy(targetPort: number): Promise<DelayProxy> {
  const sockets = new Set<Socket>();
  const setting = { delay: 0 };
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port: targetPort, host: '127.0.0.1', noDelay: true });
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket
        .on('error', () => undefined)
        .on('close', () => {
          sockets.delete(socket);
          client.destroy();
          upstream.destroy();
        });
    }
    client.on('data', delayed(upstream, setting));
    upstream.on('data', (chunk) => upstream.destroyed || client.write(chunk));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `redis://127.0.0.1:${port}`,
    get delay() {
      return setting.delay;
    },
    set delay(delay) {
      setting.delay = delay;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

// All of the delay on the way to the server: the round trip is what the client sees. One timer per
// chunk, and each sends the oldest: timers of unlike delays may fire out of order.
function delayed(target: Socket, setting: { readonly delay: number }): (chunk: Buffer) => void {
  const queue: Buffer[] = [];
  let lastAt = 0;
  const sendOldest = (): void => {
    const chunk = queue.shift();
    if (chunk !== undefined && !target.destroyed) target.write(chunk);
  };
  return (chunk) => {
    const now = performance.now();
    lastAt = Math.max(lastAt, now + setting.delay);
    queue.push(chunk);
    if (lastAt <= now && queue.length === 1) sendOldest();
    else setTimeout(sendOldest, lastAt - now);
  };
}
