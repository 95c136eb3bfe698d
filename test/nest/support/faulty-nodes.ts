import { MemoryNode } from 'nestjs-locked';
import { FaultyNode } from 'nestjs-locked/testing';

/** Three nodes, of which any number can be broken together. */
export function faultyNodes(): FaultyNode[] {
  return ['a', 'b', 'c'].map((name) => new FaultyNode({ node: new MemoryNode({ name }) }));
}
