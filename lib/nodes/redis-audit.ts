// What is checked of a server when it is connected. Source: PROTOCOL.md section 11.
import type { World } from '../core/lock-node.js';
import type { Milliseconds } from '../core/units.js';
import { printable } from './redis-outcomes.js';

/** A server's clock against ours, and by how much the measurement may be wrong. */
export interface ClockReading {
  /** Node clock minus own wall clock, which may be set between two readings. */
  readonly offset: Milliseconds;
  /** Node clock minus own monotonic clock, which may stand still while this machine sleeps. */
  readonly monotonicOffset: Milliseconds;
  readonly error: Milliseconds;
}

/** What a server says of itself; unknown where INFO is denied. */
export interface ServerFacts {
  readonly role: string | undefined;
  readonly runId: string | undefined;
  readonly evictionPolicy: string | undefined;
  readonly replicaCount: number;
  readonly isAppendOnly: boolean;
  readonly isClustered: boolean;
  /** For how long the process has run; NaN where that is not known. */
  readonly uptime: Milliseconds;
}

/** What an audit found: why the node must not vote, or what the operator should know. */
export interface AuditResult {
  readonly refusal: string | null;
  readonly findings: readonly string[];
}

/** What the nodes of one set know of each other while they are connected. */
export class NodePeers {
  readonly #connected = new Map<string, { runId: string | undefined; clock: ClockReading }>();
  readonly #duplicates = new Set<string>();

  constructor(readonly nodeCount: number) {}

  /** The names of nodes that turned out to be the same server as another one. */
  get duplicates(): ReadonlySet<string> {
    return this.#duplicates;
  }

  /** Notes a connected node; if its server process is noted already, returns that node's name. */
  admit(name: string, runId: string | undefined, clock: ClockReading): string | null {
    const twin = this.#others(name).find(([, peer]) => peer.runId === runId)?.[0];
    if (twin !== undefined && runId !== undefined) {
      this.#duplicates.add(name);
      return twin;
    }
    this.#duplicates.delete(name);
    this.#connected.set(name, { runId, clock });
    return null;
  }

  /** Forgets a node whose connection ended. */
  leave(name: string): void {
    this.#connected.delete(name);
  }

  /**
   * The other nodes whose clocks surely differ from this one by more than `limit`. They were read
   * when they connected: if our own clock was set since, or we slept, only one of the two says so.
   */
  apart(name: string, clock: ClockReading, limit: Milliseconds): string[] {
    const isApart = (peer: ClockReading): boolean => {
      const byWallClock = Math.abs(peer.offset - clock.offset);
      const byMonotonic = Math.abs(peer.monotonicOffset - clock.monotonicOffset);
      return Math.min(byWallClock, byMonotonic) - peer.error - clock.error > limit;
    };
    return this.#others(name).flatMap(([other, peer]) => (isApart(peer.clock) ? [other] : []));
  }

  #others(name: string): [string, { runId: string | undefined; clock: ClockReading }][] {
    return [...this.#connected].filter(([other]) => other !== name);
  }
}

/**
 * The server that a node's name led to last time: another one may answer to it now. By the wall
 * clock, because that goes on while this machine sleeps, as the next server's uptime does.
 */
export class LastServer {
  #runId: string | undefined;
  #seenAt: Milliseconds = -Infinity;

  /** It answers. How long its connection lasted says less: a server may die without a word. */
  seen(now: Milliseconds): void {
    this.#seenAt = now;
  }

  /**
   * Takes note of the server that answers now. Says what is wrong if it is another one and was
   * already running when the last one was seen.
   */
  next({ runId, uptime }: ServerFacts, now: Milliseconds): string[] {
    const isAnother = this.#runId !== undefined && runId !== this.#runId;
    const wasUpBeside = isAnother && uptime > now - this.#seenAt + UPTIME_ERROR;
    this.#runId = runId;
    this.seen(now);
    return wasUpBeside ? [UP_BESIDE] : [];
  }
}

/** Reads the reply of INFO; null (denied) leaves everything unknown. */
export function factsOf(info: string | null): ServerFacts {
  const lines = (info ?? '').split('\r\n').map((line) => printable(line).split(':', 2));
  const fields = new Map(lines.map(([field = '', value = '']) => [field, value]));
  return {
    role: fields.get('role'),
    runId: fields.get('run_id'),
    evictionPolicy: fields.get('maxmemory_policy'),
    replicaCount: Number(fields.get('connected_slaves') ?? 0),
    isAppendOnly: fields.get('aof_enabled') === '1',
    isClustered: fields.get('cluster_enabled') === '1',
    uptime: Number(fields.get('uptime_in_seconds')) * 1_000,
  };
}

/** Judges a connected server by what it says of itself and by its peers, which learn of it. */
export function auditServer(
  node: { readonly name: string; readonly isPersistent: boolean },
  facts: ServerFacts,
  clock: ClockReading,
  peers: NodePeers,
  world: World,
): AuditResult {
  const twin = peers.admit(node.name, facts.runId, clock);
  if (twin !== null) {
    return refuse(`It is the same server as ${twin}: one server is one node. Name another server.`);
  }
  if (facts.role === undefined) return { refusal: null, findings: [INFO_DENIED] };
  if (facts.role !== 'master') {
    return refuse(`It is a ${facts.role}, and a node is a master. Name an independent master.`);
  }
  const limit = world.clockSkewMax / 2;
  const clocks = peers
    .apart(node.name, clock, limit)
    .map(
      (other) =>
        `Its clock and that of ${other} differ by more than ${limit} ms. Synchronise them.`,
    );
  return { refusal: null, findings: [...configuration(node, facts), ...clocks] };
}

/**
 * What is wrong if the client that connected before goes by other numbers than we do.
 * Applications that keep disagreeing each say so when they connect.
 */
export function disagreement(rulesBefore: string, world: World, nodeCount: number): string[] {
  const { clockSkewMax, fencing } = world;
  const [skew, fences, quarantine, count] = rulesBefore.split(':').map(Number);
  let setting = '';
  if (skew !== clockSkewMax || quarantine !== world.quarantine) {
    setting = 'ttlMax, driftFactor or quarantine';
  }
  if ((fences === 0) === fencing) setting = 'fencing';
  if (count !== nodeCount) setting = 'number of nodes';
  if (setting === '') return [];
  return [
    `The client that connected before this one uses another ${setting}: two holders may be let ` +
      'in, or tokens may not grow. Set the same in all applications, or give each a keyPrefix.',
  ];
}

function configuration(
  node: { readonly isPersistent: boolean },
  { evictionPolicy, replicaCount, isAppendOnly, isClustered }: ServerFacts,
): string[] {
  const findings: string[] = [];
  if (evictionPolicy !== undefined && evictionPolicy !== 'noeviction') {
    findings.push(
      `Its maxmemory-policy is ${evictionPolicy}: it may evict a lock that is held. ` +
        'Set noeviction.',
    );
  }
  if (replicaCount > 0) {
    findings.push(
      `It has ${replicaCount} connected replica(s): a failover may forget locks that are held. ` +
        'Run it without replicas.',
    );
  }
  if (node.isPersistent && !isAppendOnly) {
    findings.push(
      'It is declared persistent, and its append-only file is off. ' +
        'Set appendonly yes and appendfsync always.',
    );
  }
  if (isClustered) {
    findings.push(
      'It is part of a Redis Cluster: it refuses what is not in its slots. ' +
        'Name an independent master.',
    );
  }
  return findings;
}

function refuse(refusal: string): AuditResult {
  return { refusal, findings: [refusal] };
}

const INFO_DENIED =
  'INFO is denied: nobody can tell whether it is a master, evicts keys, or is the same server as ' +
  'another node. Grant +info.';

const UP_BESIDE =
  'It is not the server of the last connection, and was up at the same time: behind a balancer, ' +
  'or after a failover, two holders may be let in. Name each server by itself.';

/** Servers tell their uptime in whole seconds, by a clock of their own. */
const UPTIME_ERROR: Milliseconds = 1_000;
