// A TCP connection that can break in the ways that networks do.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export interface TcpProxy {
  readonly port: number;
  readonly url: string;
  /** How many connections clients have made so far. */
  readonly connectionCount: number;
  /** How many of them were reset by the client. */
  readonly resetCount: number;
  /** Tells what the server says from now on, on any connection. */
  overhear(listener: (words: string) => void): void;
  /** From now on what clients write stays here. */
  holdRequests(): void;
  /** From now on what the server answers stays here. */
  holdReplies(): void;
  /** Delivers what was held, and holds nothing any more. */
  pass(): void;
  /** Tells all clients what the server did not say. */
  inject(reply: string): void;
  /** Breaks all connections; what was held is lost. */
  cut(): void;
  /** Breaks all connections and refuses new ones. */
  close(): Promise<void>;
  /** Accepts connections again, on the same port. */
  open(): Promise<void>;
}

/** Starts a proxy on 127.0.0.1 for a server on `targetPort`. */
export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const pairs = new Set<readonly [client: Socket, upstream: Socket]>();
  let connectionCount = 0;
  let resetCount = 0;
  let overheard: ((words: string) => void) | null = null;
  const holding = { requests: false, replies: false };
  const server = createServer((client) => {
    connectionCount += 1;
    const upstream = connect({ port: targetPort, host: '127.0.0.1' });
    const pair = [client, upstream] as const;
    pairs.add(pair);
    pipe(client, upstream, holding.requests);
    pipe(upstream, client, holding.replies);
    upstream.on('data', (chunk) => {
      overheard?.(String(chunk));
    });
    const end = (): void => {
      pairs.delete(pair);
      client.destroy();
      upstream.destroy();
    };
    client.on('error', ({ code }: NodeJS.ErrnoException) => {
      if (code === 'ECONNRESET') resetCount += 1;
    });
    for (const socket of pair) socket.on('error', end).on('close', end);
  });
  const listen = async (port: number): Promise<number> => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  };
  const cut = (): void => {
    for (const [client] of pairs) reset(client);
  };
  const port = await listen(0);

  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    get connectionCount() {
      return connectionCount;
    },
    get resetCount() {
      return resetCount;
    },
    overhear: (listener) => {
      overheard = listener;
    },
    holdRequests: () => {
      holding.requests = true;
      for (const [client] of pairs) client.pause();
    },
    holdReplies: () => {
      holding.replies = true;
      for (const [, upstream] of pairs) upstream.pause();
    },
    pass: () => {
      holding.requests = holding.replies = false;
      for (const socket of [...pairs].flat()) socket.resume();
    },
    inject: (reply) => {
      for (const [client] of pairs) client.write(reply);
    },
    cut,
    close: async () => {
      cut();
      if (!server.listening) return;
      server.close();
      await once(server, 'close');
    },
    open: async () => {
      await listen(port);
    },
  };
}

function pipe(from: Socket, to: Socket, isHeld: boolean): void {
  from.on('data', (chunk) => to.write(chunk));
  if (isHeld) from.pause();
}

/**
 * Resets a connection. On a socket that is ending that fails (EINVAL) and leaves a handle that Node
 * never frees: the process would spin at its exit.
 */
export function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
