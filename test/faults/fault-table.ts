// The faults of a torture run: what each does, how long it lasts, and what must hold all the same.
import type { Milliseconds } from 'nestjs-locked';

/** What a run is checked for. */
export type Guarantee =
  /** No two claims of one resource overlap. */
  | 'exclusion'
  /** Tokens are distinct, and grow from each grant to the next. */
  | 'tokens'
  /** A register whose writes carry the token as their condition loses no update. */
  | 'register'
  /** A counter guarded by the lock alone loses no update made while the lock was held. */
  | 'counter'
  /** Every worker acquires again soon after the faults have ended. */
  | 'availability'
  /** No worker ends by itself: no unexpected error, no unhandled rejection. */
  | 'crash'
  /** A lost lock never comes back. */
  | 'revival'
  /** No key outlives its ttl. */
  | 'leftovers';

/** One kind of fault. */
export interface FaultEntry {
  /** What is hit: a server, the network between one worker and one server, or a worker. */
  readonly target: 'node' | 'path' | 'worker';
  /** How likely it is, against the others. */
  readonly weight: number;
  readonly duration: { readonly min: Milliseconds; readonly max: Milliseconds };
  /** What the node may not keep through it. Without quarantine, that suspends some guarantees. */
  readonly forgets?: true;
  /** Never hits a majority of nodes in one round. */
  readonly onlyMinority?: true;
}

const short = { min: 50, max: 600 } as const;
const long = { min: 300, max: 2_500 } as const;
const instant = { min: 0, max: 0 } as const;

/**
 * All kinds. None suspends a guarantee while quarantine is on, however many nodes are hit:
 * - who pauses for longer than the validity writes late, which the fenced register refuses; of
 *   the counter it is no promise, and such a write is known by the lock not being held after it;
 * - nodes that forget do not vote until every lock that they may have forgotten is over;
 * - a worker that is killed holds its locks for their ttl, and ends as it was asked to.
 * Clocks are no fault here: PROTOCOL.md section 1 assumes that they do not step.
 */
export const faultTable = {
  restart: { target: 'node', weight: 3, duration: long, forgets: true },
  'restart from a snapshot': { target: 'node', weight: 1, duration: long, forgets: true },
  freeze: { target: 'node', weight: 3, duration: long },
  flush: { target: 'node', weight: 2, duration: instant, forgets: true },
  'flush scripts': { target: 'node', weight: 2, duration: instant },
  'kill clients': { target: 'node', weight: 2, duration: instant },
  'pause clients': { target: 'node', weight: 1, duration: long },
  sleep: { target: 'node', weight: 1, duration: long },
  'out of memory': { target: 'node', weight: 2, duration: long },
  // A majority of replicas is a mistake in the configuration, which ends the start of a worker.
  'become a replica': {
    target: 'node',
    weight: 2,
    duration: long,
    forgets: true,
    onlyMinority: true,
  },
  partition: { target: 'path', weight: 5, duration: long },
  'lose requests': { target: 'path', weight: 5, duration: long },
  'lose replies': { target: 'path', weight: 5, duration: long },
  delay: { target: 'path', weight: 5, duration: long },
  reset: { target: 'path', weight: 4, duration: instant },
  'drop a reply': { target: 'path', weight: 4, duration: instant },
  'double a reply': { target: 'path', weight: 4, duration: instant },
  'pause worker': { target: 'worker', weight: 3, duration: long },
  'kill worker': { target: 'worker', weight: 2, duration: short },
  'block worker': { target: 'worker', weight: 3, duration: long },
} as const satisfies Record<string, FaultEntry>;

export type FaultKind = keyof typeof faultTable;

/** The kinds, in the order of the table. */
export const faultKinds = Object.keys(faultTable) as FaultKind[];

/** The entry of a kind. */
export function faultEntry(kind: FaultKind): FaultEntry {
  return faultTable[kind];
}

/** What must hold in a run with these faults. */
export function promisesUnder(
  faults: readonly FaultKind[],
  isQuarantined: boolean,
): ReadonlySet<Guarantee> {
  const mayForget = faults.some((kind) => faultEntry(kind).forgets === true);
  return new Set(mayForget && !isQuarantined ? withoutQuarantine : always);
}

const withoutQuarantine = [
  'register',
  'availability',
  'crash',
  'revival',
  'leftovers',
] as const satisfies readonly Guarantee[];

const always: readonly Guarantee[] = [...withoutQuarantine, 'exclusion', 'tokens', 'counter'];
