import Redlock, { type Settings } from 'redlock';

import type { Connect } from './candidate.js';
import { connectClients, disconnectAll } from './clients.js';
import { keepWhileRunning } from './kept.js';

/** With its own delay between attempts, or with `retryDelay` ms and half of it as jitter. */
export function connectNodeRedlock(retryDelay?: number): Connect {
  return async (urls, given) => {
    const { ttl, patience } = given;
    const clients = await connectClients(urls, given);
    const redlock = new Redlock(clients);
    // For acquisitions only: a release that fails must not be repeated for ever.
    const settings: Partial<Settings> = {
      retryCount: Math.ceil(patience / (retryDelay ?? 200)),
      ...(retryDelay === undefined ? {} : { retryDelay, retryJitter: retryDelay / 2 }),
    };
    return {
      acquire: (resource) => redlock.acquire([resource], ttl, settings),
      keep: (resource) =>
        keepWhileRunning((routine) => redlock.using([resource], ttl, settings, routine)),
      close: () => disconnectAll(clients),
    };
  };
}
