import type { Environment } from './environment.js';
import type { LockNode } from './lock-node.js';
import type { RedlockObserver } from './observer.js';
import type { ResolvedOptions } from './options.js';
import type { RoundTimers } from './round-timers.js';
import type { Watchdog } from './watchdog.js';

/** What all locks of one `Redlock` share: its nodes, its rules and its surroundings. */
export interface Ensemble {
  readonly nodes: readonly LockNode[];
  /** How many nodes make a majority of all configured ones. */
  readonly quorum: number;
  readonly options: ResolvedOptions;
  readonly environment: Environment;
  readonly observer: RedlockObserver;
  readonly roundTimers: RoundTimers;
  readonly watchdog: Watchdog;
}
