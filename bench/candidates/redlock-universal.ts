import { createRedlock, IoredisAdapter } from 'redlock-universal';

import type { Connect } from './candidate.js';
import { connectClients, disconnectAll } from './clients.js';
import { keepWhileRunning } from './kept.js';

/** With its own delay between attempts, or with `retryDelay` ms. */
export function connectRedlockUniversal(retryDelay = 200): Connect {
  return async (urls, settings) => {
    const { ttl, patience } = settings;
    const clients = await connectClients(urls, settings);
    const adapters = clients.map((client) => new IoredisAdapter(client));
    const retryAttempts = Math.ceil(patience / retryDelay);
    // This library has one lock object per key.
    const lockOf = (key: string): ReturnType<typeof createRedlock> =>
      createRedlock({ adapters, key, ttl, retryAttempts, retryDelay });
    return {
      acquire: async (resource) => {
        const lock = lockOf(resource);
        const handle = await lock.acquire();
        return { release: () => lock.release(handle) };
      },
      keep: (resource) => keepWhileRunning((routine) => lockOf(resource).using(routine)),
      close: () => disconnectAll(clients),
    };
  };
}
