// Other implementations of Redlock, each with one attempt per call.
import { randomUUID } from 'node:crypto';

import type { Redis } from 'ioredis';
import { RedlockMutex } from 'redis-semaphore';
import Redlock5, { ExecutionError } from 'redlock';
import Redlock4 from 'redlock-4';
import { createRedlock, IoredisAdapter, LockAcquisitionError } from 'redlock-universal';

/** Another library, or none, that locks the same keys. */
export interface Rival {
  readonly name: string;
  /** The key that it writes for a resource. */
  readonly keyOf: (resource: string) => string;
  /** One attempt: how to release, or null where the lock is taken. */
  readonly acquire: (clients: Redis[], resource: string) => Promise<(() => Promise<void>) | null>;
}

const TTL = 10_000;

/** The implementations that are tried. */
export const rivals: readonly Rival[] = [
  {
    name: 'redlock 4',
    keyOf: (resource) => resource,
    async acquire(clients, resource) {
      try {
        const lock = await new Redlock4(clients, { retryCount: 0 }).lock(resource, TTL);
        return async () => lock.unlock();
      } catch (error) {
        if (error instanceof Error && error.name === 'LockError') return null;
        throw error;
      }
    },
  },
  {
    name: 'redlock 5',
    keyOf: (resource) => resource,
    async acquire(clients, resource) {
      try {
        const lock = await new Redlock5(clients, { retryCount: 0 }).acquire([resource], TTL);
        return async () => {
          await lock.release();
        };
      } catch (error) {
        if (error instanceof ExecutionError) return null;
        throw error;
      }
    },
  },
  {
    name: 'redis-semaphore',
    // It puts its kind before the key: name it so, or set it as `keyPrefix`.
    keyOf: (resource) => `mutex:${resource}`,
    async acquire(clients, resource) {
      const limits = { lockTimeout: TTL, refreshInterval: 0, acquireAttemptsLimit: 1 };
      const mutex = new RedlockMutex(clients, resource, limits);
      return (await mutex.tryAcquire()) ? () => mutex.release() : null;
    },
  },
  {
    name: 'redlock-universal',
    keyOf: (resource) => resource,
    async acquire(clients, resource) {
      const adapters = adaptersOf(clients);
      const lock = createRedlock({ adapters, key: resource, ttl: TTL, retryAttempts: 0 });
      try {
        const handle = await lock.acquire();
        return async () => {
          await lock.release(handle);
        };
      } catch (error) {
        if (error instanceof LockAcquisitionError) return null;
        throw error;
      }
    },
  },
  {
    // Source: Redis "Distributed Locks", Correct Implementation with a Single Instance.
    name: 'the commands of the Redlock text',
    keyOf: (resource) => resource,
    async acquire(clients, resource) {
      const value = randomUUID();
      const release = async (): Promise<void> => {
        await Promise.all(clients.map((client) => client.eval(RELEASE, 1, resource, value)));
      };
      const answers = await Promise.all(
        clients.map((client) => client.set(resource, value, 'PX', TTL, 'NX')),
      );
      const granted = answers.filter((answer) => answer === 'OK').length;
      if (granted > clients.length / 2) return release;
      await release();
      return null;
    },
  },
];

/** As redlock-universal wants clients. */
export function adaptersOf(clients: readonly Redis[]): IoredisAdapter[] {
  return clients.map((client) => new IoredisAdapter(client));
}

const RELEASE =
  'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0';
