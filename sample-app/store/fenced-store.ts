/** A write or read by a holder whose lock has since gone to somebody else. Nothing was changed. */
export class StaleTokenError extends Error {
  override readonly name = 'StaleTokenError';

  constructor(token: number) {
    super(`Fencing token ${token} is stale: a newer holder of the lock has been here`);
  }
}

/**
 * Whole numbers by name, shared by all replicas. Each name is also the resource of the lock that
 * guards it, so its tokens only ever grow.
 *
 * Why a store needs this although there is a lock: a holder can be paused between its last check
 * of the lock and its write (garbage collection, a slow network) for longer than the lock lives.
 * Only the store can still refuse that write. It remembers the highest token that it has seen
 * for each name, and each use by a lower one is refused.
 *
 * An abstract class and not an interface, so that Nest can inject by it.
 */
export abstract class FencedStore {
  /**
   * Reads the value; null if there is none. Registers the token: from now on older holders cannot
   * write, so what is read here stays true until this holder writes.
   * @throws StaleTokenError
   */
  abstract read(name: string, token: number): Promise<number | null>;

  /**
   * Writes all values or none.
   * @throws StaleTokenError
   */
  abstract write(values: Readonly<Record<string, number>>, token: number): Promise<void>;

  /** Reads a value to show to people, without a lock: it may be old by the time it arrives. */
  abstract peek(name: string): Promise<number | null>;

  /** All names, sorted. */
  abstract names(): Promise<string[]>;

  /** Writes the names that are absent, for a first start. */
  abstract seed(values: Readonly<Record<string, number>>): Promise<void>;

  /** Writes without any check. Only for the demonstration without locks. */
  abstract overwrite(name: string, value: number): Promise<void>;

  abstract close(): Promise<void>;
}
