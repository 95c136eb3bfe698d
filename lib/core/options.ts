import {
  checkBoolean,
  checkInteger,
  checkNames,
  checkNumber,
  checkObject,
  wrongType,
} from './option-checks.js';
import { resolveWorld } from './world.js';
import type { World } from './lock-node.js';
import type { Milliseconds } from './units.js';

/** Bounds of a random delay between two attempts of one waiter. */
export interface RetryDelay {
  /** At least 1 ms. */
  readonly min: Milliseconds;
  /** `min` to 2_147_483_647 ms. Left out, it is the default, or `min` if that is longer. */
  readonly max: Milliseconds;
}

/** The options of one acquisition. What is left out is as the module has it. */
export interface AcquireOptions {
  /**
   * How long to keep trying while others hold the resource or too few nodes answer, in whole
   * ms, 0 to 2_147_483_647; 0 makes one attempt. Counted from the call, including the time in this
   * process's queue. The first attempt has its whole `nodeTimeout` all the same, and of calls for
   * thousands of free resources at once each has it, however late. If only the fencing token was in
   * the way, up to three more follow at once. If the vote is split, as among replicas that ask at
   * once, up to three more follow, each after a `retryDelay`: otherwise each replica might be told
   * that another has the lock.
   * @default 5_000 – longer than most critical sections, shorter than most HTTP timeouts
   */
  readonly wait?: Milliseconds | undefined;
  /**
   * Random delay between two attempts, in ms, when releases cannot be heard; from 20 ms on it may
   * be up to 10 ms longer, because calls that pause go on together. When they can be heard, a
   * release wakes the call at once; it also polls every 40 to 60 ms, or after `min` if that is
   * longer. Both delays grow while more than 200 calls of a process pause, or fewer such as want
   * many resources each.
   * @default { min: 20, max: 120 } – waiters of several processes spread, and none waits long
   */
  readonly retryDelay?: Partial<Record<keyof RetryDelay, Milliseconds | undefined>> | undefined;
  /** Ends the waiting: the call rejects with the signal's `reason`, and nothing stays locked. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Extends the lock every third of its ttl until it is released or `maxHold` is over.
   * @default true for `using` and `@Locked`, false for `acquire`: a ttl there means what it says
   */
  readonly watchdog?: boolean | undefined;
  /**
   * How long the lock may be extended, in whole ms since its acquisition, 100 to 2_147_483_647.
   * After that it is lost when the validity that it then has ends.
   * @default 3_600_000 – a body that hangs for an hour must not block the others for ever
   */
  readonly maxHold?: Milliseconds | undefined;
}

/** The options of one `using` call. */
export interface UsingOptions extends AcquireOptions {
  /** Lifetime given to the nodes, in whole ms, 100 to `ttlMax`. @default 10_000, as the module's */
  readonly ttl?: Milliseconds | undefined;
  /**
   * Keeps the resource taken until this many ms after the acquisition, even when the body is
   * done earlier, for jobs that machines start at slightly different times. Whole ms, at most
   * `maxHold`. The nodes keep it even if the process ends before, but then for `ttlMax` at most.
   * @default 0
   */
  readonly holdAtLeast?: Milliseconds | undefined;
}

/**
 * The options of all locks of a `Redlock`. All clients must have the same `ttlMax`, `driftFactor`,
 * `fencing`, `quarantine` and `keyPrefix`.
 */
export interface RedlockOptions extends Omit<AcquireOptions, 'signal'> {
  /**
   * Lifetime given to the nodes where a call names none, in whole ms, 100 to `ttlMax`.
   * @default 10_000, or a shorter `ttlMax` – survives a long pause, frees a crashed process soon
   */
  readonly ttl?: Milliseconds | undefined;
  /**
   * The longest ttl that any client uses, in whole ms, 100 to 86_400_000. It sets how long a
   * restarted node's votes do not count and how far clocks may differ, so it must be the same in
   * all clients.
   * @default 30_000
   */
  readonly ttlMax?: Milliseconds | undefined;
  /**
   * Share by which a client's and a node's clock rates may differ, 0.001 to 0.1.
   * @default 0.01 – the Redlock text's figure
   */
  readonly driftFactor?: number | undefined;
  /**
   * How long one attempt waits for the nodes, in whole ms, 1 to `ttlMax`; never more than a quarter
   * of the ttl.
   * @default a twentieth of the ttl, at least 50, at most 500
   */
  readonly nodeTimeout?: Milliseconds | undefined;
  /**
   * A node that is silent for this long is disconnected and reconnected, in whole ms, 1 to
   * 2_147_483_647.
   * @default 5_000
   */
  readonly stallTimeout?: Milliseconds | undefined;
  /**
   * Whether every grant carries a fencing token that only grows.
   * @default true
   */
  readonly fencing?: boolean | undefined;
  /**
   * Whether a restarted node's votes do not count until every lock it may have forgotten is over.
   * @default 'auto' – on for 3 nodes and more; 1 and 2 promise no more than a single instance
   */
  readonly quarantine?: 'auto' | boolean | undefined;
  /**
   * Put before every key. A well-formed string that is not `redlock` and does not begin with
   * `redlock:`: there a node keeps what belongs to locks without a prefix.
   * @default '' – the key is the resource's name, as in the Redlock text, so that Redlock clients
   * in other languages exclude us and we them
   */
  readonly keyPrefix?: string | undefined;
  /**
   * How long a shutdown waits for running bodies before it aborts their signals, in whole ms, 0 to
   * 2_147_483_647. Bodies then get one more second to end; `acquire`d locks do not.
   * @default 10_000
   */
  readonly shutdownTimeout?: Milliseconds | undefined;
}

/** {@link RedlockOptions}, checked, complete and frozen. */
export interface ResolvedOptions {
  readonly ttl: Milliseconds;
  readonly ttlMax: Milliseconds;
  readonly wait: Milliseconds;
  readonly retryDelay: RetryDelay;
  readonly driftFactor: number;
  /** Null: derived from each ttl, see {@link nodeTimeoutOf}. */
  readonly nodeTimeout: Milliseconds | null;
  readonly stallTimeout: Milliseconds;
  /** Where a call with a body says nothing; one by hand is extended only if it says so. */
  readonly watchdog: boolean;
  readonly maxHold: Milliseconds;
  readonly shutdownTimeout: Milliseconds;
  readonly world: World;
}

/** One call's options, checked and complete. */
export interface ResolvedAcquire {
  readonly ttl: Milliseconds;
  readonly wait: Milliseconds;
  readonly retryDelay: RetryDelay;
  readonly signal: AbortSignal | null;
  readonly watchdog: boolean;
  readonly maxHold: Milliseconds;
  readonly holdAtLeast: Milliseconds;
}

/** The shortest ttl that a node is ever asked for. Source: PROTOCOL.md section 4. */
export const TTL_MIN: Milliseconds = 100;

/** The highest `ttlMax` that a module may have: a day. */
export const TTL_MAX_HIGHEST: Milliseconds = 86_400_000;

const RETRY_DELAY: RetryDelay = Object.freeze({ min: 20, max: 120 });

/** All {@link RedlockOptions} there are. */
export const REDLOCK_OPTIONS: Readonly<Record<keyof RedlockOptions, true>> = {
  ttl: true,
  ttlMax: true,
  wait: true,
  retryDelay: true,
  driftFactor: true,
  nodeTimeout: true,
  stallTimeout: true,
  fencing: true,
  quarantine: true,
  keyPrefix: true,
  watchdog: true,
  maxHold: true,
  shutdownTimeout: true,
};

/** All options of a call without a body; the layer that offers `reentrant` checks its value. */
const ACQUIRE_OPTIONS: Readonly<Record<keyof AcquireOptions | 'reentrant', true>> = {
  wait: true,
  retryDelay: true,
  watchdog: true,
  maxHold: true,
  signal: true,
  reentrant: true,
};

/** All options of a call with a body. */
const USING_OPTIONS: Readonly<Record<keyof UsingOptions | 'reentrant', true>> = {
  ...ACQUIRE_OPTIONS,
  ttl: true,
  holdAtLeast: true,
};

/** The longest delay that a timer of Node takes. */
export const DELAY_MAX: Milliseconds = 2_147_483_647;

/**
 * Checks the options of a {@link Redlock} over `nodeCount` nodes and fills in the defaults.
 * @throws TypeError, RangeError naming the option, its rule and the value.
 */
export function resolveOptions(options: RedlockOptions, nodeCount: number): ResolvedOptions {
  checkObject('options', options);
  // A misspelt keyPrefix or ttlMax would make another world.
  checkNames('only options of RedlockOptions', options, REDLOCK_OPTIONS);
  // Not by `??`: null may stand for a setting that somebody believes to be made.
  const { ttlMax = 30_000, driftFactor = 0.01, wait = 5_000, retryDelay, nodeTimeout } = options;
  const { stallTimeout = 5_000, watchdog = true, maxHold = 3_600_000 } = options;
  const { shutdownTimeout = 10_000 } = options;
  checkInteger('ttlMax', ttlMax, TTL_MIN, TTL_MAX_HIGHEST);
  const { ttl = Math.min(10_000, ttlMax) } = options;
  return Object.freeze({
    ttlMax,
    driftFactor: checkNumber('driftFactor', driftFactor, 0.001, 0.1),
    ttl: checkTtl(ttl, ttlMax),
    wait: checkInteger('wait', wait, 0, DELAY_MAX),
    retryDelay: checkRetryDelay(retryDelay, RETRY_DELAY),
    nodeTimeout:
      nodeTimeout === undefined ? null : checkInteger('nodeTimeout', nodeTimeout, 1, ttlMax),
    stallTimeout: checkInteger('stallTimeout', stallTimeout, 1, DELAY_MAX),
    watchdog: checkBoolean('watchdog', watchdog),
    maxHold: checkInteger('maxHold', maxHold, TTL_MIN, DELAY_MAX),
    shutdownTimeout: checkInteger('shutdownTimeout', shutdownTimeout, 0, DELAY_MAX),
    world: resolveWorld(options, ttlMax, driftFactor, nodeCount),
  });
}

/**
 * Checks one call's options; what they leave out is as the module has it.
 * @throws TypeError, RangeError naming the option, its rule and the value.
 */
export function resolveAcquire(
  defaults: ResolvedOptions,
  kind: 'acquire' | 'using',
  ttl: Milliseconds | undefined,
  options: UsingOptions,
): ResolvedAcquire {
  checkObject('options', options);
  if (kind === 'using') checkNames('only options of UsingOptions', options, USING_OPTIONS);
  else checkNames('only options of AcquireOptions', options, ACQUIRE_OPTIONS);
  const { wait = defaults.wait, maxHold = defaults.maxHold, holdAtLeast = 0 } = options;
  const { watchdog = kind === 'using' && defaults.watchdog } = options;
  return {
    ttl: ttl === undefined ? defaults.ttl : checkTtl(ttl, defaults.ttlMax),
    wait: checkInteger('wait', wait, 0, DELAY_MAX),
    retryDelay: checkRetryDelay(options.retryDelay, defaults.retryDelay),
    signal: checkSignal(options.signal),
    watchdog: checkBoolean('watchdog', watchdog),
    maxHold: checkInteger('maxHold', maxHold, TTL_MIN, DELAY_MAX),
    holdAtLeast: checkInteger('holdAtLeast', holdAtLeast, 0, maxHold, ' (maxHold)'),
  };
}

/**
 * Checks a lock's lifetime.
 * @throws TypeError, RangeError naming the rule and the value.
 */
export function checkTtl(ttl: unknown, ttlMax: Milliseconds): Milliseconds {
  // Other libraries want a ttl as long as the work.
  const isLong = typeof ttl === 'number' && ttl > ttlMax;
  const note = isLong ? ' (ttlMax; for longer work let the watchdog extend it)' : ' (ttlMax)';
  return checkInteger('ttl', ttl, TTL_MIN, ttlMax, note);
}

/**
 * How long one attempt waits for the nodes, in whole ms.
 * Source: PROTOCOL.md section 4.3: clamp(T/20, 50, 500), at most T/4.
 */
export function nodeTimeoutOf(options: ResolvedOptions, ttl: Milliseconds): Milliseconds {
  const preferred = options.nodeTimeout ?? Math.min(500, Math.max(50, ttl / 20));
  return Math.floor(Math.min(preferred, ttl / 4));
}

function checkRetryDelay(delay: AcquireOptions['retryDelay'], defaults: RetryDelay): RetryDelay {
  if (delay === undefined) return defaults;
  checkObject('retryDelay', delay);
  checkNames('only members of RetryDelay in retryDelay', delay, defaults);
  const { min = defaults.min } = delay;
  checkNumber('retryDelay.min', min, 1, DELAY_MAX);
  const { max = Math.max(defaults.max, min) } = delay;
  return Object.freeze({ min, max: checkNumber('retryDelay.max', max, min, DELAY_MAX) });
}

function checkSignal(signal: unknown): AbortSignal | null {
  if (signal === undefined) return null;
  if (signal instanceof AbortSignal) return signal;
  throw wrongType('signal', 'an AbortSignal', signal);
}
