// What the application and its selling processes tell each other.
import type { Milliseconds } from 'nestjs-locked';

import type { LogLine, Visit, VisitOutcome } from './messages.js';
import type { NodeTraffic } from './node-traffic.js';

/** One buyer for one counter, which serves one at a time. */
export interface SellRequest {
  readonly counter: number;
  readonly section: Milliseconds;
  readonly isLocked: boolean;
  /** The process kills itself in the middle of its next turn, whichever buyer's that is. */
  readonly isFatal: boolean;
}

export type ReplicaMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'answer'; readonly counter: number; readonly outcome: VisitOutcome }
  | ({ readonly type: 'news' } & ReplicaNews);

/** How often a replica tells what is new, in ms. */
export const NEWS_EVERY = 50;

/** What happened in the process since the last news. */
export interface ReplicaNews {
  readonly visits: readonly Visit[];
  readonly log: readonly LogLine[];
  readonly traffic: readonly NodeTraffic[];
}
