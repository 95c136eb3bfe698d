import type { Random } from './random.js';

/** How a step gets and keeps its lock; with `extend` by hand, and with `extendInBody` in a body. */
export type StepKind = 'acquire' | 'try' | 'extend' | 'using' | 'extendInBody' | 'inspect';

/** How a step ends its lock. `late`: after its validity; `throw`: the body fails. */
export type Ending = 'release' | 'twice' | 'late' | 'never' | 'throw';

/** One call of the library, and what is done with the lock. */
export interface Step {
  readonly kind: StepKind;
  readonly resources: readonly string[];
  readonly ttl: number;
  readonly wait: number;
  /** Before the call, in ms. */
  readonly idle: number;
  /** How long the lock is kept, in ms. */
  readonly hold: number;
  readonly ending: Ending;
  readonly hasWatchdog: boolean;
  /** The ttl of extensions by hand, and the pause between them. */
  readonly extendTtl: number;
  readonly extendEvery: number;
  readonly maxHold: number;
  readonly holdAtLeast: number;
  /** When the caller gives up waiting, in ms after the call; null: never. */
  readonly abortAfter: number | null;
  /** Whether the lock is asked all the time whether it is held. */
  readonly isFollowed: boolean;
}

/** Steps that one caller makes one after the other. */
export type Task = readonly Step[];

interface TaskContext {
  readonly resources: readonly string[];
  readonly ttlMax: number;
  readonly activeFor: number;
  readonly isHasty: boolean;
  /** Many callers of one process that want the same for a moment each. */
  readonly isCrowded: boolean;
}

/** Draws what the callers of one client do. */
export function drawTasks(random: Random, context: TaskContext): Task[] {
  const count = context.isCrowded ? random.integer(3, 6) : random.pick([1, 1, 2]);
  return Array.from({ length: count }, () =>
    Array.from({ length: random.integer(2, 5) }, () => {
      const step = drawStep(random, context);
      if (context.isHasty) return { ...step, ...haste(random, context) };
      return context.isCrowded ? { ...step, ...crowd(random, context) } : step;
    }),
  );
}

function crowd(random: Random, { resources, ttlMax, activeFor }: TaskContext): Partial<Step> {
  return {
    kind: random.pick<StepKind>(['using', 'using', 'extendInBody', 'acquire', 'extend']),
    resources: random.chance(0.2) ? resources : resources.slice(0, 1),
    ttl: ttlMax,
    wait: activeFor,
    idle: random.next() ** 3 * 20,
    hold: random.next() ** 2 * 15,
    ending: random.pick<Ending>(['release', 'release', 'release', 'release', 'twice', 'never']),
    hasWatchdog: false,
    isFollowed: true,
  };
}

function haste(random: Random, { ttlMax }: TaskContext): Partial<Step> {
  return {
    kind: 'extend',
    ttl: random.integer(100, 150),
    extendTtl: ttlMax,
    extendEvery: random.next() * 10,
    hold: random.next() * 30,
    ending: 'late',
    isFollowed: true,
  };
}

function drawStep(random: Random, { resources, ttlMax, activeFor }: TaskContext): Step {
  const ttl = random.chance(0.4) ? ttlMax : random.integer(100, ttlMax);
  const kind = random.pick<StepKind>(['acquire', 'acquire', 'try', 'extend', 'using', 'using']);
  const holdMax = Math.min(activeFor, ttl * 2.5);
  const ending = random.pick<Ending>([
    'release',
    'release',
    'release',
    'twice',
    'late',
    'throw',
    'never',
  ]);
  const isWatched = random.chance(kind === 'using' ? 0.9 : 0.2);
  return {
    kind: random.chance(0.03) ? 'inspect' : kind,
    resources: drawResources(random, resources),
    ttl,
    wait: random.integer(0, activeFor),
    idle: random.next() ** 3 * activeFor * 0.5,
    hold: random.chance(0.3) ? random.next() * 5 : random.next() ** 2 * holdMax,
    ending,
    // Nobody ends it, or waits for its end: the watchdog would keep it for ever.
    hasWatchdog: isWatched && (kind === 'using' || !['never', 'late'].includes(ending)),
    extendTtl: random.chance(0.4) ? random.integer(100, ttlMax) : ttl,
    extendEvery: random.chance(0.3) ? random.next() * 3 : random.next() * ttl * 0.9,
    maxHold: random.chance(0.1) ? random.integer(100, ttlMax * 2) : 3_600_000,
    holdAtLeast: random.chance(0.15) ? random.integer(0, 100) : 0,
    abortAfter: random.chance(0.1) ? random.next() ** 2 * activeFor * 0.3 : null,
    isFollowed: random.chance(0.75),
  };
}

function drawResources(random: Random, resources: readonly string[]): readonly string[] {
  if (resources.length > 1 && random.chance(0.25)) {
    return resources.filter((_, index) => index === 0 || random.chance(0.6));
  }
  return [random.chance(0.7) ? (resources[0] ?? 'a') : random.pick(resources)];
}
