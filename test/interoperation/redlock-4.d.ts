// redlock 4 ships no types. What the tests use of it.
declare module 'redlock-4' {
  import type { Redis } from 'ioredis';

  export interface Lock {
    unlock(): PromiseLike<void>;
    extend(ttl: number): PromiseLike<Lock>;
  }

  export default class Redlock {
    constructor(clients: Redis[], options?: { retryCount?: number });
    lock(resource: string, ttl: number): PromiseLike<Lock>;
  }
}
