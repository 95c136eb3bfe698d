import type { LossReason } from './errors.js';
import type { Told } from './lock-node.js';
import type { Milliseconds } from './units.js';

/**
 * Who goes next after a release: `others`, who are told; `ours`, a call of this process, which asks
 * the nodes at once; `handedOver`, one that has the lock already, so that the nodes keep it.
 */
export type Succession = 'others' | 'ours' | 'handedOver';

/** How a lock is looked after while it is held. */
export interface Care {
  /** Whether the watchdog extends it; if not, only the end of its validity is told. */
  readonly isWatchdogOn: boolean;
  readonly maxHold: Milliseconds;
  onExtended(): void;
  onLost(reason: LossReason): void;
  /** Called before anything is sent; says who goes next. */
  onReleasing(): Succession;
  /**
   * The keys are deleted as far as they can be, or handed over. `wasHeld`: the claim lasted until
   * the release. `told`: which other processes know.
   */
  onReleased(wasHeld: boolean, told: Told): void;
}
