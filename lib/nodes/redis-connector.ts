// How the name of a host is looked up. Node.js looks names up on few threads, two unless
// UV_THREADPOOL_SIZE says otherwise, and goes on with a look-up that nobody waits for any more.
// While no name server answers for one node, each attempt to connect to it would begin another:
// soon no thread would be left for the names of the other nodes, nor for those of the application.
//
// `dns` as a whole: the application may replace its `lookup`, as by one that remembers names.
import dns, { type LookupAddress } from 'node:dns';
import { createConnection, type LookupFunction, type Socket } from 'node:net';

import type { RedisOptions } from 'ioredis';

type Answer = [error: Error | null, address: string | LookupAddress[], family?: number];

/** The options of ioredis that say how a connection is made. */
export type Route = Pick<RedisOptions, 'path' | 'sentinels' | 'tls'> & {
  /** The application's own way to connect: a class of its own copy of ioredis. */
  readonly Connector?: unknown;
};

/**
 * Gives, for each connection to one host, options of ioredis with which all of them share a look-up
 * of its name: what is asked while one is under way gets the answer to that. Where others look it
 * up, as Sentinels or the application's own connector do, that is left to them. What `route` has as
 * `tls` is read for each connection: a certificate may have been renewed.
 */
export function sharingLookup(route: Route): () => Pick<RedisOptions, 'Connector' | 'tls'> {
  const { Connector, path, sentinels } = route;
  if (Connector || path || sentinels) return () => ({});
  const lookup = sharedLookup();
  return () =>
    route.tls ? { tls: { lookup, ...route.tls } } : { Connector: connectorWith(lookup) };
}

function sharedLookup(): LookupFunction {
  let underWay: Promise<Answer> | null = null;
  return (host, options, onAnswer) => {
    underWay ??= new Promise<Answer>((resolve) => {
      dns.lookup(host, options, (...answer) => resolve(answer));
    }).finally(() => (underWay = null));
    underWay.then(
      (answer) => onAnswer(...answer),
      (error: unknown) => onAnswer(error as Error, ''),
    );
  };
}

// Connects as ioredis does, which goes by another look-up over TLS only. Not a class that extends
// one of ioredis: a mock of ioredis need not have that.
function connectorWith(lookup: LookupFunction): NonNullable<RedisOptions['Connector']> {
  class SharingConnector {
    /** Read by ioredis, which may listen too late for the first one. */
    firstError: Error | undefined;
    #stream: Socket | null = null;

    constructor(readonly options: Required<Pick<RedisOptions, 'host' | 'port' | 'family'>>) {}

    connect(): Promise<Socket> {
      return new Promise((resolve) => {
        const { host, port, family } = this.options;
        const stream = createConnection({ host, port, family, lookup });
        stream.once('error', (error) => (this.firstError = error));
        this.#stream = stream;
        resolve(stream);
      });
    }

    // The stream may be given up before ioredis has it, and could end it.
    disconnect(): void {
      this.#stream?.destroy();
    }
  }
  return SharingConnector as unknown as NonNullable<RedisOptions['Connector']>;
}
