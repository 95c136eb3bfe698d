// Histograms and counters, fed by the diagnostics channels. Names and units follow the semantic
// conventions: dotted, durations in seconds, counted things in braces.
import { ValueType, type Attributes, type Meter } from '@opentelemetry/api';

import type { LossReason } from '../core/errors.js';
import type { Milliseconds } from '../core/units.js';
import type {
  AcquireMessage,
  LostMessage,
  ReleaseMessage,
  RoundMessage,
} from '../nest/telemetry.js';
import { lossReasonOf, outcomeOf, type AcquireOutcome } from './attributes.js';

/** From about a round trip to about `wait` and `ttl`; in s. */
const waitBoundaries = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
];
/** Up to the default `maxHold`; in s. */
const holdBoundaries = [...waitBoundaries, 300, 900, 3_600];
/** Up to a node timeout of 500 ms and twice that; in s. */
const roundBoundaries = [
  0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];
/** Every reason: the type refuses an object that lacks one. `released` is not a loss. */
const lossReasons = Object.keys({
  expired: true,
  suspended: true,
  revoked: true,
  maxHold: true,
  closed: true,
} satisfies Record<Exclude<LossReason, 'released'>, true>);
/** Acquisitions that are worth an alert. */
const troubles: readonly AcquireOutcome[] = ['no_quorum', 'expired'];
/** As many series as OpenTelemetry's SDK keeps apart: endless classes must not fill the memory. */
const CLASSES_MAX = 2_000;

/** Records what the channels say of locks. */
export class LockMetrics {
  readonly #wait;
  readonly #hold;
  readonly #round;
  readonly #acquisitions;
  readonly #extensions;
  readonly #losses;
  /** Domains and classes whose trouble counters have begun, at 0. */
  readonly #begun = new Set<string>();

  constructor(meter: Meter) {
    const inSeconds = (name: string, description: string, boundaries: number[]) =>
      meter.createHistogram(`nestjs_locked.${name}.duration`, {
        description,
        unit: 's',
        advice: { explicitBucketBoundaries: boundaries },
      });
    const counted = (name: string, thing: string, description: string) =>
      meter.createCounter(`nestjs_locked.${name}`, {
        description,
        unit: `{${thing}}`,
        valueType: ValueType.INT,
      });
    this.#wait = inSeconds('wait', 'From a call for a lock to its outcome.', waitBoundaries);
    this.#hold = inSeconds('hold', 'From an acquisition to its release or loss.', holdBoundaries);
    this.#round = inSeconds('round', 'From asking all nodes to the decision.', roundBoundaries);
    this.#acquisitions = counted('acquisitions', 'acquisition', 'Calls for a lock, by outcome.');
    this.#extensions = counted('extensions', 'extension', 'Extensions by a quorum of nodes.');
    this.#losses = counted('losses', 'lock', 'Locks that ended before their holder did.');
  }

  onAcquire(message: AcquireMessage, lock: Attributes): void {
    const outcome = outcomeOf(message);
    if (outcome === 'granted') this.#beginTroubles(lock);
    const attributes = { ...lock, 'nestjs_locked.outcome': outcome };
    this.#acquisitions.add(1, attributes);
    this.#wait.record(toSeconds(message.waited), attributes);
  }

  onExtend(lock: Attributes): void {
    this.#extensions.add(1, lock);
  }

  onRelease({ heldFor }: ReleaseMessage, lock: Attributes): void {
    this.#hold.record(toSeconds(heldFor), { ...lock, 'nestjs_locked.outcome': 'released' });
  }

  onLost({ heldFor, reason }: LostMessage, lock: Attributes): void {
    this.#losses.add(1, { ...lock, 'nestjs_locked.loss.reason': lossReasonOf(reason) });
    this.#hold.record(toSeconds(heldFor), { ...lock, 'nestjs_locked.outcome': 'lost' });
  }

  // Without a class: a round tells how the nodes are, not what is locked.
  onRound({ redlock, operation, duration, isGranted }: RoundMessage): void {
    this.#round.record(toSeconds(duration), {
      'nestjs_locked.domain': redlock,
      'nestjs_locked.operation': operation,
      'nestjs_locked.outcome': isGranted ? 'granted' : 'refused',
    });
  }

  // To Prometheus, a counter that first appears at 1 has not increased: nobody would see the first
  // trouble, and there is seldom a second one.
  #beginTroubles(lock: Attributes): void {
    const key = Object.values(lock).join('\n');
    if (this.#begun.has(key) || this.#begun.size === CLASSES_MAX) return;
    this.#begun.add(key);
    for (const reason of lossReasons) {
      this.#losses.add(0, { ...lock, 'nestjs_locked.loss.reason': lossReasonOf(reason) });
    }
    for (const outcome of troubles) {
      this.#acquisitions.add(0, { ...lock, 'nestjs_locked.outcome': outcome });
    }
  }
}

function toSeconds(duration: Milliseconds): number {
  return duration / 1_000;
}
