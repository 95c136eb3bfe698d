import type { LossReason } from './errors.js';
import type { Lock } from './lock.js';
import type { NodeStatus } from './lock-node.js';
import type { Milliseconds } from './units.js';

/**
 * Is told what happens to locks and nodes, for logs, metrics and tracing. Called in the middle
 * of the algorithm: an observer returns soon and never throws.
 */
export interface RedlockObserver {
  /**
   * A lock is held, `waited` ms after the call and after `attempts` attempts; `attempts` is 0 when
   * another call of this process handed the lock over.
   */
  acquired(lock: Lock, waited: Milliseconds, attempts: number): void;
  /**
   * A call for a lock was refused or given up with `error`; `isAborted` when `error` is the reason
   * of the caller's signal.
   */
  refused(
    resources: readonly string[],
    error: unknown,
    waited: Milliseconds,
    attempts: number,
    isAborted: boolean,
  ): void;
  /** A quorum of nodes extended the lock. */
  extended(lock: Lock): void;
  /**
   * The lock's holder released it; the release began `heldFor` ms after the acquisition. Or the ttl
   * ended what `holdAtLeast` had the nodes keep, before this process came to release it.
   */
  released(lock: Lock, heldFor: Milliseconds): void;
  /**
   * The lock is no longer held although nobody released it, as was noticed `heldFor` ms after its
   * acquisition. Once for each lock.
   */
  lost(lock: Lock, reason: LossReason, heldFor: Milliseconds): void;
  /**
   * The nodes were asked once (for an extension, those that owe no answer), and `duration` ms after
   * the first byte it was decided whether a quorum granted what was asked. Not called for a round
   * that its caller broke off, or that one node decided in place of all.
   */
  roundDecided(
    operation: RoundOperation,
    resources: readonly string[],
    duration: Milliseconds,
    isGranted: boolean,
  ): void;
  /** A node went up or down, was suspended, quarantined, refused, or showed a finding. */
  nodeChanged(status: NodeStatus, message: string, isTrouble: boolean): void;
}

/** What a round asks the nodes for. */
export type RoundOperation = 'acquire' | 'extend';

/** An observer that does nothing. */
export const silentObserver: RedlockObserver = {
  acquired: ignore,
  refused: ignore,
  extended: ignore,
  released: ignore,
  lost: ignore,
  roundDecided: ignore,
  nodeChanged: ignore,
};

// Silence is its job.
function ignore(): void {}
