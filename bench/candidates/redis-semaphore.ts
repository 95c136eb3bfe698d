import { RedlockMutex } from 'redis-semaphore';

import type { Connect } from './candidate.js';
import { connectClients, disconnectAll } from './clients.js';

export const connectRedisSemaphore: Connect = async (urls, settings) => {
  const clients = await connectClients(urls, settings);
  const limits = { lockTimeout: settings.ttl, acquireTimeout: settings.patience };
  return {
    acquire: async (resource) => {
      // The other libraries' locks are not extended either.
      const mutex = new RedlockMutex(clients, resource, { ...limits, refreshInterval: 0 });
      await mutex.acquire();
      return mutex;
    },
    keep: async (resource) => {
      let isLost = false;
      const onLockLost = (): void => {
        isLost = true;
      };
      const mutex = new RedlockMutex(clients, resource, { ...limits, onLockLost });
      await mutex.acquire();
      return { release: () => mutex.release(), isLost: () => isLost };
    },
    close: () => disconnectAll(clients),
  };
};
