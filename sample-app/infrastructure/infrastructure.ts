// What the application runs on: the lock nodes, and the store that all replicas share.
import { MemoryStore } from '../store/memory-store.js';
import { RedisStore } from '../store/redis-store.js';
import type { FencedStore } from '../store/fenced-store.js';
import { findRedisServer, RedisServer } from './redis-server.js';
import { ThrowawayNode } from './throwaway-node.js';

export interface Infrastructure {
  /** URLs for `RedlockModule.forRoot`; undefined means one node in this process's memory. */
  readonly nodes: readonly string[] | undefined;
  /** The nodes that were started here, in the same order; empty if they were given. */
  readonly ownNodes: readonly ThrowawayNode[];
  readonly store: FencedStore;
  /** Where other processes find the store; undefined where it is in this process's memory. */
  readonly storeUrl: string | undefined;
  /** One line for the log. */
  readonly description: string;
}

/**
 * Reads `REDIS_NODES` and `STORE_URL`, and starts what they do not name. Nothing has to be stopped:
 * servers that are started here end with this process, however it ends.
 */
export async function prepareInfrastructure(env: NodeJS.ProcessEnv): Promise<Infrastructure> {
  const given = env.REDIS_NODES ? env.REDIS_NODES.split(',').map((url) => url.trim()) : undefined;
  const { nodesText, ...locks } = await prepareNodes(given);
  // Replicas that are given the same nodes and no store still have to share a store.
  const { storeText, ...shared } = await prepareStore(env.STORE_URL ?? given?.[0]);
  return { ...locks, ...shared, description: `locks: ${nodesText}; store: ${storeText}` };
}

async function prepareNodes(given: readonly string[] | undefined) {
  if (given !== undefined) {
    return { nodes: given, ownNodes: [], nodesText: given.map(withoutPassword).join(', ') };
  }
  if (findRedisServer() === null) {
    const nodesText = 'no Redis is installed, one node in memory';
    return { nodes: undefined, ownNodes: [], nodesText };
  }
  const starts = Array.from({ length: NODE_COUNT }, () => ThrowawayNode.start());
  const ownNodes = await Promise.all(starts);
  const nodes = ownNodes.map(({ url }) => url);
  return { nodes, ownNodes, nodesText: `${NODE_COUNT} throwaway servers, ${nodes.join(', ')}` };
}

async function prepareStore(url: string | undefined) {
  if (url !== undefined) {
    return { store: new RedisStore(url), storeUrl: url, storeText: withoutPassword(url) };
  }
  if (findRedisServer() === null) {
    return { store: new MemoryStore(), storeUrl: undefined, storeText: 'in memory' };
  }
  const { url: storeUrl } = await RedisServer.start();
  return {
    store: new RedisStore(storeUrl),
    storeUrl,
    storeText: `a throwaway server, ${storeUrl}`,
  };
}

function withoutPassword(url: string): string {
  // RedlockModule will say what is wrong with it.
  if (!URL.canParse(url)) return 'no URL';
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

// Five keep granting while any two of them are down.
const NODE_COUNT = 5;
