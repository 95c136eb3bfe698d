// The peers' ioredis clients, as their READMEs make them: by address alone, unless it is asked what
// pipelining would give them.
import { Redis } from 'ioredis';

import type { CandidateSettings } from './candidate.js';

/** Resolves when all are ready. Errors of a single client are left to the library. */
export async function connectClients(
  urls: readonly string[],
  { isPipelined = false }: CandidateSettings,
): Promise<Redis[]> {
  const options = { lazyConnect: true, enableAutoPipelining: isPipelined };
  const clients = urls.map((url) => new Redis(url, options));
  for (const client of clients) client.on('error', () => undefined);
  await Promise.all(clients.map((client) => client.connect()));
  return clients;
}

/** Ends the connections at once. */
export function disconnectAll(clients: readonly Redis[]): Promise<void> {
  for (const client of clients) client.disconnect();
  return Promise.resolve();
}
