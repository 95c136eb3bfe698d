/**
 * The memory that is reachable in this process, after a collection: JavaScript objects and the
 * buffers beside them, in bytes. Needs --expose-gc.
 */
export function readMemory(): number {
  globalThis.gc?.();
  const { external, heapUsed } = process.memoryUsage();
  return heapUsed + external;
}
