// A network that adds `delay` to the round trip.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export interface DelayProxy {
  readonly url: string;
  /** The round-trip time that is added from now on, in ms. Never reorders. */
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

// The whole delay is on the way to the server, as a client sees only the round trip. What is due is
// passed on whenever something arrives, and so as evenly as it came. By the timer alone, which
// fires once in a millisecond, it would go in bursts, which a slow network does not make, and the
// fast servers would wait for a core while the slow one works off a burst.
function delayed(target: Socket, setting: { readonly delay: number }): (chunk: Buffer) => void {
  const queue: { readonly chunk: Buffer; readonly dueAt: number }[] = [];
  let isTimed = false;
  const sendDue = (): void => {
    const now = performance.now();
    let next = queue[0];
    while (next !== undefined && next.dueAt <= now) {
      queue.shift();
      if (!target.destroyed) target.write(next.chunk);
      next = queue[0];
    }
    if (next === undefined || isTimed) return;
    isTimed = true;
    setTimeout(onTime, next.dueAt - now);
  };
  const onTime = (): void => {
    isTimed = false;
    sendDue();
  };
  return (chunk) => {
    queue.push({ chunk, dueAt: performance.now() + setting.delay });
    sendDue();
  };
}
