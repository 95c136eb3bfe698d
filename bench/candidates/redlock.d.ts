// What bench and tests use of redlock 5.0.0-beta.2, whose `exports` hide its types from nodenext.
declare module 'redlock' {
  import type { Redis } from 'ioredis';

  export interface Settings {
    readonly retryCount: number;
    readonly retryDelay: number;
    readonly retryJitter: number;
  }

  export interface Lock {
    release(): Promise<unknown>;
    extend(ttl: number): Promise<Lock>;
  }

  export class ExecutionError extends Error {}

  export default class Redlock {
    constructor(clients: Iterable<Redis>, settings?: Partial<Settings>);
    acquire(resources: string[], duration: number, settings?: Partial<Settings>): Promise<Lock>;
    using<T>(
      resources: string[],
      duration: number,
      settings: Partial<Settings>,
      routine: (signal: AbortSignal) => Promise<T>,
    ): Promise<T>;
    quit(): Promise<void>;
  }
}
