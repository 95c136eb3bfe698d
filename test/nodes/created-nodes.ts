// Nodes made from what users name them by, which end with the test.
import { Redis, type RedisOptions } from 'ioredis';

import { resolveOptions, type RedlockOptions } from '../../lib/core/options.js';
import { createNodes, type NodeInput, type NodeSet } from '../../lib/nodes/node-inputs.js';
import { afterTest } from '../support/after-test.js';

export function create(inputs: unknown[] | undefined, options: RedlockOptions = {}): NodeSet {
  const resolved = resolveOptions(options, 1);
  // Users of plain JavaScript pass anything.
  const nodes = createNodes(inputs as NodeInput[], resolved);
  afterTest(() => nodes.close());
  return nodes;
}

/** A client that never connects. */
export function idleClient(options: RedisOptions): Redis {
  return new Redis({ ...options, lazyConnect: true, replyMapping: 'legacy' });
}
