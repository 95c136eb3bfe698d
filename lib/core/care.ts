import type { LossReason } from './errors.js';
import type { Milliseconds } from './units.js';
import type { Watchdog } from './watchdog.js';

/**
 * Who goes next after a release: `others`, who are told; `ours`, a call of this process, which asks
 * the nodes at once; or one that has the lock already (`handedOver`), so that the nodes keep it.
 */
export type Succession = 'others' | 'ours' | 'handedOver';

/** How a lock is looked after while it is held. */
export interface Care {
  readonly watchdog: Watchdog;
  /** Whether it is extended, or only told when its validity ends. */
  readonly isExtended: boolean;
  readonly maxHold: Milliseconds;
  onExtended(): void;
  onLost(reason: LossReason): void;
  /** Called before anything is sent; says who goes next. */
  onReleasing(): Succession;
  /**
   * The keys are deleted as far as they can be, or handed over; `wasHeld` when the claim lasted
   * until then. `listeners` other processes were told.
   */
  onReleased(wasHeld: boolean, listeners: number): void;
}
