// The memory that is reachable in this process, after a collection. Needs --expose-gc.

export interface MemoryResult {
  /** JavaScript objects and the buffers beside them, in bytes. */
  readonly used: number;
}

export function readMemory(): Promise<MemoryResult> {
  globalThis.gc?.();
  const { external, heapUsed } = process.memoryUsage();
  return Promise.resolve({ used: heapUsed + external });
}
