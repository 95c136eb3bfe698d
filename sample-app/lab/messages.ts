// What the server sends to the page: plain data, whose types both import.
import type { Milliseconds, NodeStatus, NodeVote } from 'nestjs-locked';

import type { ProcessState } from '../infrastructure/throwaway-node.js';

/** Ms of the machine's monotonic clock: comparable between all processes of this machine. */
export type Instant = number;

/**
 * All that the page shows, as it is now, but of long lists only the beginning: the rest follows as
 * `Changes`. The first message of each connection.
 */
export interface Snapshot {
  /** Changes when the server restarts. */
  readonly bootId: string;
  readonly now: Instant;
  readonly setting: Setting;
  readonly sale: SaleState;
  readonly job: JobState;
  /** The held locks among those acquired by hand. */
  readonly hands: readonly HeldByHand[];
  readonly nodes: readonly NodeState[];
  readonly resources: readonly WatchedResource[];
  readonly visits: readonly Visit[];
  readonly log: readonly LogLine[];
}

/** What is new: single things as a whole; of lists, the new and changed items. */
export interface Changes extends Partial<Omit<Snapshot, 'bootId' | 'setting'>> {
  readonly now: Instant;
}

/** What does not change while the server runs. */
export interface Setting {
  /** How many nodes must grant a lock. */
  readonly quorum: number;
  readonly ttlMax: Milliseconds;
  /** Whether the nodes are throwaway servers of this application, which may be broken. */
  readonly hasOwnNodes: boolean;
  /** Why there can be no sale over several processes; empty if there can. */
  readonly noSaleReason: string;
}

export interface SaleSettings {
  /** Pieces to sell. */
  readonly stock: number;
  /** How many buyers there are; each wants one piece. */
  readonly buyers: number;
  /** Processes that sell, 1 to 4. */
  readonly replicas: number;
  /** Time between reading the stock and writing it, in ms. */
  readonly section: Milliseconds;
  /** False sells without `@Locked`. */
  readonly isLocked: boolean;
  /** Whether it starts again, when all buyers have an answer, until it is stopped. */
  readonly isEndless: boolean;
}

export interface SaleState {
  readonly phase: 'idle' | 'starting' | 'running' | 'stopping' | 'stopped' | 'done' | 'failed';
  readonly settings: SaleSettings;
  /** 0 before the first. */
  readonly startedAt: Instant;
  /** How many times the stock was put on sale since the start. */
  readonly rounds: number;
  /** Pieces that were put on sale since the start. */
  readonly offered: number;
  readonly sold: number;
  /** Buyers who were told that the stock is sold out. */
  readonly refused: number;
  /** Pieces that were sold but never existed. */
  readonly oversold: number;
  /** Pieces that were sold but are still on sale: another buyer's sale has overwritten theirs. */
  readonly stillOnSale: number;
  /** How many times a buyer did not get the lock and retried. */
  readonly comeAgain: number;
  /** Buyers of this round without an answer. */
  readonly waiting: number;
  /** Why it failed; empty otherwise. */
  readonly message: string;
}

/** One buyer at one counter of a replica. */
export interface Visit {
  readonly id: string;
  /** 1 to 4. */
  readonly replica: number;
  /** 0 to 3: one replica serves as many buyers at once. */
  readonly counter: number;
  readonly cameAt: Instant;
  /** When reading and writing the stock began for this buyer; null while waiting. */
  readonly enteredAt: Instant | null;
  /** Fencing token of the lock; null without a lock. */
  readonly token: number | null;
  readonly leftAt: Instant | null;
  readonly outcome: VisitOutcome | null;
}

export type VisitOutcome = 'sold' | 'sold out' | 'no lock' | 'lock lost' | 'failed';

export interface NodeState {
  readonly name: string;
  readonly status: NodeStatus;
  /** When `status` was read: the quarantine's remainder counts from then. */
  readonly at: Instant;
  readonly votesPerSecond: number;
  /** Mean answer time of the last second, in ms; null without an answer. */
  readonly latency: Milliseconds | null;
  /** Null if the node is not one of ours. */
  readonly process: ProcessState | null;
  readonly delay: Milliseconds;
}

/** Who holds a resource on each node, in the order of `Snapshot.nodes`. */
export interface WatchedResource {
  readonly resource: string;
  readonly at: Instant;
  readonly nodes: readonly {
    readonly state: 'free' | 'held' | 'unknown';
    readonly ownerId: string | null;
    /** Which process that is, if it is one of ours. */
    readonly owner: string | null;
    readonly remaining: Milliseconds;
  }[];
}

/** A lock acquired by hand: valid for `remaining` ms from `at`. */
export interface HeldByHand {
  readonly ownerId: string;
  readonly remaining: Milliseconds;
  readonly at: Instant;
}

export interface JobState {
  readonly phase: 'idle' | 'waiting' | 'running' | 'taking over' | 'done' | 'stopped';
  readonly step: number;
  readonly steps: number;
  /** The lock of the present worker: valid for `remaining` ms from `at`. */
  readonly validity: { readonly remaining: Milliseconds; readonly at: Instant } | null;
  /** The most that `remaining` can be. */
  readonly ttl: Milliseconds;
  readonly token: number | null;
  readonly extensions: number;
  /** What happened, oldest first. */
  readonly story: readonly JobEvent[];
}

export interface JobEvent {
  readonly kind: 'acquired' | 'aborted' | 'stopped' | 'refused' | 'written' | 'done';
  /** Wall clock, ms since 1970. */
  readonly at: number;
  readonly text: string;
}

export type LogKind = 'acquired' | 'extended' | 'released' | 'refused' | 'lost' | 'node' | 'action';

export interface LogLine {
  readonly id: string;
  /** Wall clock, ms since 1970. */
  readonly at: number;
  readonly kind: LogKind;
  /** `app`, `replica 1`, … */
  readonly source: string;
  readonly text: string;
  /** What each node said, if there was an error. */
  readonly votes: readonly NodeVote[];
  /** Who got the lock; null where nobody did. */
  readonly ownerId: string | null;
}
