import type { LockNode } from '../../lib/core/lock-node.js';
import type { TestNode } from '../support/test-node.js';

/** A node of an application's own, whose `react` is called from within all that it is told to do. */
export function reactingNode(node: TestNode, react: () => void): LockNode {
  const reacted = (): TestNode => {
    react();
    return node;
  };
  return {
    name: node.name,
    acquire: (request, onAnswer) => reacted().acquire(request, onAnswer),
    extend: (request, onAnswer) => reacted().extend(request, onAnswer),
    release: (request, onAnswer) => reacted().release(request, onAnswer),
    inspect: (world, resource, onAnswer) => node.inspect(world, resource, onAnswer),
    listen: (world, resource, listener) => reacted().listen(world, resource, listener),
    status: () => node.status(),
  };
}
