// The common shape of every library and every limit, so that one load drives them all.

/** A lock that somebody holds. */
export interface Held {
  release(): Promise<unknown>;
}

/** A lock that its library extends until it is released. */
export interface Kept extends Held {
  /** Whether the library knows that the lock was lost, or would say so when asked. */
  isLost(): boolean;
}

/** One connected library, or limit. */
export interface Candidate {
  /** Locks `resource` for the settings' ttl, without extending. Waits up to `patience`. */
  acquire(resource: string): Promise<Held>;
  /**
   * Runs `body` under the lock of `resource`, if the library has a way of its own that costs less
   * than acquiring before it and releasing after it.
   */
  using?(resource: string, body: () => Promise<void>): Promise<void>;
  /** Locks `resource`, and extends the lock in the way that the library offers for it. */
  keep(resource: string): Promise<Kept>;
  close(): Promise<void>;
}

/** The settings of all candidates; times in whole ms. */
export interface CandidateSettings {
  readonly ttl: number;
  /** How long `acquire` keeps trying while the resource is taken. */
  readonly patience: number;
  /** Whether a library's ioredis clients have `enableAutoPipelining`. @default false */
  readonly isPipelined?: boolean;
}

/** Connects to the nodes and resolves when all of them may be used. */
export type Connect = (urls: readonly string[], settings: CandidateSettings) => Promise<Candidate>;
