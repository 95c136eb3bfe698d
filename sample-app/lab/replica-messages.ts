// The messages between the application and its selling processes.
import type { Milliseconds } from 'nestjs-locked';

import type { LogLine, Visit, VisitOutcome } from './messages.js';
import type { NodeTraffic } from './node-traffic.js';

/** Sends one buyer to one counter, which serves one at a time. */
export interface SellRequest {
  readonly counter: number;
  readonly section: Milliseconds;
  readonly isLocked: boolean;
  /** Whether the process kills itself in the middle of its next turn, whoever the buyer is. */
  readonly isFatal: boolean;
}

export type ReplicaMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'answer'; readonly counter: number; readonly outcome: VisitOutcome }
  | ({ readonly type: 'news' } & ReplicaNews);

/** How often a replica sends its news, in ms. */
export const NEWS_EVERY = 50;

/** What happened in the process since the last news. */
export interface ReplicaNews {
  readonly visits: readonly Visit[];
  readonly log: readonly LogLine[];
  readonly traffic: readonly NodeTraffic[];
}
