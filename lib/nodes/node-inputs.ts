// From what an application names as nodes to the nodes themselves.
import { systemEnvironment, type Environment } from '../core/environment.js';
import { isLockNode, type LockNode } from '../core/lock-node.js';
import { silentObserver } from '../core/observer.js';
import type { ResolvedOptions } from '../core/options.js';
import { majorityOf } from '../core/quorum.js';
import { RoundTimers } from '../core/round-timers.js';
import type { RedlockPorts } from '../core/redlock.js';
import { checkBoolean, hasMethods, isObject, wrongType } from '../core/option-checks.js';
import type { Milliseconds } from '../core/units.js';
import { MemoryNode } from './memory-node.js';
import { NodePeers } from './redis-audit.js';
import { RedisNode } from './redis-node.js';
import {
  targetOfClient,
  targetOfOptions,
  targetOfUrl,
  type RedisClient,
  type RedisOptions,
  type RedisTarget,
} from './redis-target.js';
import { RedisTick } from './redis-tick.js';

/** What may be said of a server besides where it is. */
export interface NodeTraits {
  /**
   * Declares that the server keeps every acknowledged write over a restart (`appendfsync always`)
   * and never fails over, so that its votes count at once after a restart. An unfounded declaration
   * lets two holders in.
   * @default false
   */
  readonly persistent?: boolean | undefined;
}

/**
 * One node: a `redis://` or `rediss://` URL, ioredis options, an ioredis client (its address and
 * options are used, for a connection of our own), or any {@link LockNode}. In an object, `url` or
 * `client` may name the server, so that {@link NodeTraits} can stand beside them.
 */
export type NodeInput =
  | string
  | RedisClient
  | LockNode
  | (RedisOptions & NodeTraits)
  | (NodeTraits & { readonly url: string })
  | (NodeTraits & { readonly client: RedisClient });

/** The nodes of one lock domain. */
export interface NodeSet {
  readonly nodes: readonly LockNode[];
  /**
   * Resolves when each node is up or failed to connect once, at most `limit` ms from now; where
   * code blocks this process until then, at most `limit` ms after that. A quarantined node is up.
   * @throws RangeError when two entries are the same server.
   * @throws Error when so many nodes are misconfigured that there can be no quorum.
   */
  whenReady(limit: Milliseconds): Promise<void>;
  /** Closes the connections made here; never a client or a LockNode that was handed in. */
  close(): Promise<void>;
}

/**
 * Makes the nodes and begins to connect them. Without `inputs`: one {@link MemoryNode}.
 * @throws TypeError for an entry that names no server in a known way.
 * @throws RangeError for two entries with the same address.
 */
export function createNodes(
  inputs: readonly NodeInput[] | undefined,
  options: ResolvedOptions,
  ports: RedlockPorts = {},
): NodeSet {
  const environment = ports.environment ?? systemEnvironment;
  const peers = new NodePeers(inputs?.length ?? 1);
  if (inputs === undefined) {
    return nodeSet([new MemoryNode({ environment })], [], environment, peers);
  }
  // Not `map`, which passes over the holes of a sparse array.
  const entries = Array.from(inputs, (input: unknown, index) =>
    readEntry(input, options.world.keyPrefix, `nodes[${index}]`),
  );
  checkDistinct(entries);

  const observer = ports.observer ?? silentObserver;
  const shared = { options, environment, observer, peers, tick: new RedisTick(environment) };
  const own: RedisNode[] = [];
  try {
    const nodes = entries.map((entry) => {
      if ('node' in entry) return entry.node;
      const { isPersistent, target } = entry;
      const node = new RedisNode(target, { ...shared, isPersistent });
      own.push(node);
      return node;
    });
    return nodeSet(nodes, own, environment, peers);
  } catch (error) {
    // From a mock of ioredis, or a client that cannot be duplicated. Those before it connect.
    for (const node of own) void node.close();
    throw error;
  }
}

type ServerShape = RedisOptions & { readonly url?: unknown; readonly client?: unknown };

type Entry =
  { readonly node: LockNode } | { readonly target: RedisTarget; readonly isPersistent: boolean };

function readEntry(input: unknown, keyPrefix: string, origin: string): Entry {
  if (isLockNode(input)) return { node: input };
  if (typeof input === 'string' || isClient(input)) {
    return { target: readServer(input, keyPrefix, origin), isPersistent: false };
  }
  if (!isObject(input)) throw unknownEntry(input, origin);
  const { persistent = false, ...server } = input as ServerShape & NodeTraits;
  const isPersistent = checkBoolean(`${origin}.persistent`, persistent);
  if (!('url' in server || 'client' in server)) {
    return { target: readOptions(server, keyPrefix, origin), isPersistent };
  }
  if (Object.keys(server).length > 1) {
    throw new TypeError(
      `Expected ${origin} to be { url } or { client }, with nothing but persistent beside it`,
    );
  }
  const named = server.url ?? server.client;
  return { target: readServer(named, keyPrefix, origin), isPersistent };
}

function readServer(server: unknown, keyPrefix: string, origin: string): RedisTarget {
  if (typeof server === 'string') return targetOfUrl(server, keyPrefix, origin);
  if (!isClient(server)) throw unknownEntry(server, origin);
  if (server.isCluster === true) {
    throw new TypeError(
      `Expected ${origin} to be one independent server, got a Redis Cluster client; ` +
        'name masters that do not replicate each other, each as a node of its own',
    );
  }
  return targetOfClient(server, keyPrefix, origin);
}

function readOptions(options: RedisOptions, keyPrefix: string, origin: string): RedisTarget {
  const { sentinels, host, port, path } = options;
  // ioredis would take anything else for localhost, or throw if the list of Sentinels is empty.
  if (!(sentinels?.length ?? host ?? port ?? path)) throw unknownEntry(options, origin);
  return targetOfOptions(options, keyPrefix, origin);
}

function checkDistinct(entries: readonly Entry[]): void {
  const known = new Map<unknown, string>();
  for (const [index, entry] of entries.entries()) {
    const identity = 'node' in entry ? entry.node : entry.target.identity;
    const name = 'node' in entry ? entry.node.name : entry.target.name;
    const twin = known.get(identity);
    if (twin !== undefined) {
      throw new RangeError(
        `Expected nodes to be distinct servers, got ${twin} and nodes[${index}] (${name}); ` +
          'another database is not another server',
      );
    }
    known.set(identity, `nodes[${index}] (${name})`);
  }
}

function nodeSet(
  nodes: readonly LockNode[],
  own: readonly RedisNode[],
  environment: Environment,
  peers: NodePeers,
): NodeSet {
  return {
    nodes,
    async whenReady(limit) {
      const outcomes = Promise.all(own.map((node) => node.firstOutcome));
      await new Promise<void>((resolve) => {
        // A start that blocks the process hears no node meanwhile.
        const timer = new RoundTimers(environment).start(limit, resolve);
        void outcomes.then(() => {
          timer.stop();
          resolve();
        });
      });
      checkFit(own, peers);
    },
    async close() {
      await Promise.all(own.map((node) => node.close()));
    },
  };
}

// A node that is down may come back; one that was refused needs somebody to act.
function checkFit(own: readonly RedisNode[], { duplicates, nodeCount }: NodePeers): void {
  const refused = own.map((node) => node.status()).filter(({ state }) => state === 'refused');
  const reasons = refused.map(({ name, findings }) => `${name}: ${findings.join(' ')}`).join('; ');
  if (duplicates.size > 0) throw new RangeError(reasons);
  const quorum = majorityOf(nodeCount);
  if (nodeCount - refused.length < quorum) {
    throw new Error(
      `There can be no quorum of ${quorum} of ${nodeCount} nodes: fix or replace those that are ` +
        `refused (docs/ERRORS.md#no-quorum of nestjs-locked). ${reasons}`,
    );
  }
}

function isClient(input: unknown): input is RedisClient {
  // `call` tells it from a client of node-redis.
  return hasMethods(input, ['duplicate', 'call']) && 'options' in input;
}

function unknownEntry(input: unknown, origin: string): TypeError {
  const rule =
    'a redis:// URL, ioredis options with host, port, path or sentinels, an ioredis client or a ' +
    'LockNode';
  return wrongType(origin, rule, input);
}
