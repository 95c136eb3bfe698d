// How a client of ioredis, which is one connection, is ended from this side.
import { TLSSocket } from 'node:tls';

import type { Redis } from 'ioredis';

/** Ends a client at once, without a word to the server. */
export function endClient(client: Redis): void {
  // On a client that has ended, this would start a timer that nothing clears.
  if (client.status !== 'end') client.disconnect();
  // A hung server never answers the end of the stream. Before it connects, a client has no stream.
  (client.stream as Redis['stream'] | undefined)?.destroy();
}

/**
 * The same where the server is silent. What was written to a connection that is merely closed may
 * still be delivered when the network is back, even minutes later: an extension would create the
 * keys of a lock again that was released over the next connection. A reset drops it. Node cannot
 * reset a connection over TLS; on a Unix socket nothing is delivered late.
 */
export function resetClient(client: Redis): void {
  const { stream } = client;
  const isTcp = stream.remoteFamily !== undefined && !(stream instanceof TLSSocket);
  // On a stream that is ending, the reset would fail, and leave a handle that is never freed.
  if (isTcp && !stream.writableEnded) stream.resetAndDestroy();
  endClient(client);
}
