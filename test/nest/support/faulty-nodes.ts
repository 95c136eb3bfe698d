import { MemoryNode, type Lock } from 'nestjs-locked';
import { FaultyNode } from 'nestjs-locked/testing';

import { rejection } from './events.js';

/** Three nodes, of which any number can be broken together. */
export function faultyNodes(): FaultyNode[] {
  return ['a', 'b', 'c'].map((name) => new FaultyNode({ node: new MemoryNode({ name }) }));
}

/**
 * All nodes forget a lock, and an extension finds that out: at once, so that no pause of a busy
 * machine can end the lock before.
 */
export async function loseLock(
  nodes: readonly FaultyNode[],
  lock: Lock | undefined,
): Promise<void> {
  if (lock === undefined) throw new Error('There is no lock to lose');
  for (const node of nodes) node.lose();
  await rejection(lock.extend());
}
