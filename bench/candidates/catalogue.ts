// Who is measured. Each is loaded in its own process, and only there.
import type { Connect } from './candidate.js';

/** `limit`: not a library, but the most that the wire allows. */
export type CandidateKind = 'ours' | 'peer' | 'limit';

export interface CatalogueEntry {
  readonly label: string;
  readonly kind: CandidateKind;
  /** What it puts before a resource's name in the key. @default '' */
  readonly keyPrefix?: string;
  /** Its settings, where they matter; shown below the tables. */
  readonly note: string;
  readonly load: () => Promise<Connect>;
}

const PEER_DELAY = 10;

export const catalogue = {
  ours: {
    label: 'nestjs-locked',
    kind: 'ours',
    note: 'the defaults, but for the quarantine, which is off: the servers are new',
    load: async () => (await import('./ours.js')).connectOurs({}),
  },
  'ours-unfenced': {
    label: 'nestjs-locked, fencing: false',
    kind: 'ours',
    note: 'the same, fencing: false',
    load: async () => (await import('./ours.js')).connectOurs({ fencing: false }),
  },
  'ours-quarantine': {
    label: 'nestjs-locked, quarantine on',
    kind: 'ours',
    note: 'ttlMax 3 s, so that the quarantine of the new servers is over soon',
    load: async () => (await import('./ours.js')).connectOurs({ quarantine: true, ttlMax: 3_000 }),
  },
  'ours-no-quarantine': {
    label: 'nestjs-locked, quarantine off',
    kind: 'ours',
    note: 'ttlMax 3 s, as its counterpart',
    load: async () => (await import('./ours.js')).connectOurs({ ttlMax: 3_000 }),
  },
  'ours-memory': {
    label: 'nestjs-locked, no servers',
    kind: 'ours',
    note: 'one node in the process’s memory, for S9',
    load: async () => (await import('./ours.js')).connectOurs({}),
  },
  'node-redlock': {
    label: 'node-redlock',
    kind: 'peer',
    note: 'the package redlock; retryDelay 200 and jitter 100 (its defaults), no retry limit',
    load: async () => (await import('./node-redlock.js')).connectNodeRedlock(),
  },
  'node-redlock-eager': {
    label: 'node-redlock, 10 ms',
    kind: 'peer',
    note: `retryDelay ${PEER_DELAY}, jitter ${PEER_DELAY / 2}: as it may be tuned for contention`,
    load: async () => (await import('./node-redlock.js')).connectNodeRedlock(PEER_DELAY),
  },
  'redis-semaphore': {
    label: 'redis-semaphore',
    keyPrefix: 'mutex:',
    kind: 'peer',
    note: 'RedlockMutex; retryInterval 10 (its default); refresh off but for S7',
    load: async () => (await import('./redis-semaphore.js')).connectRedisSemaphore,
  },
  'redlock-universal': {
    label: 'redlock-universal',
    kind: 'peer',
    note: 'createRedlock over IoredisAdapter; retryDelay 200 (its default), no retry limit; made for Node 22',
    load: async () => (await import('./redlock-universal.js')).connectRedlockUniversal(),
  },
  'redlock-universal-eager': {
    label: 'redlock-universal, 10 ms',
    kind: 'peer',
    note: `retryDelay ${PEER_DELAY}: as it may be tuned for contention`,
    load: async () => (await import('./redlock-universal.js')).connectRedlockUniversal(PEER_DELAY),
  },
  ioredis: {
    label: 'plain ioredis',
    kind: 'limit',
    note: 'SET NX PX to all nodes, then compare-and-delete; polls every 5 to 15 ms',
    load: async () => (await import('./plain-ioredis.js')).connectPlainIoredis,
  },
  socket: {
    label: 'bare socket',
    kind: 'limit',
    note: 'the same bytes as plain ioredis, hand-written, one write per tick and node',
    load: async () => (await import('./bare-socket.js')).connectBareSocket,
  },
  'script-socket': {
    label: 'bare socket, our scripts',
    kind: 'limit',
    note: 'the scripts of nestjs-locked in place of SET: what the servers need of our time',
    load: async () => (await import('./script-socket.js')).connectScriptSocket(true),
  },
  'script-socket-unfenced': {
    label: 'bare socket, our scripts, fencing: false',
    kind: 'limit',
    note: 'the same, fencing: false',
    load: async () => (await import('./script-socket.js')).connectScriptSocket(false),
  },
} as const satisfies Record<string, CatalogueEntry>;

export type CandidateName = keyof typeof catalogue;

/** The candidates where nobody has to wait for another. */
export const contestants = [
  'ours',
  'ours-unfenced',
  'node-redlock',
  'redis-semaphore',
  'redlock-universal',
  'ioredis',
  'socket',
] as const satisfies readonly CandidateName[];

/** The candidates where a lock is by itself. */
export const soloists = [
  ...contestants,
  'script-socket',
  'script-socket-unfenced',
] as const satisfies readonly CandidateName[];

/** The candidates under contention, where a peer's delay decides: also with a short delay. */
export const contenders = [
  ...contestants,
  'node-redlock-eager',
  'redlock-universal-eager',
] as const satisfies readonly CandidateName[];

/** The key that a candidate locks for `resource`. */
export function keyOf(name: CandidateName, resource: string): string {
  const { keyPrefix = '' }: CatalogueEntry = catalogue[name];
  return `${keyPrefix}${resource}`;
}

/** Whether `name` is one of the {@link catalogue}. */
export function isCandidateName(name: string): name is CandidateName {
  return name in catalogue;
}

/** What kind of candidate a row of the results is of. Rows that no candidate has are of ours. */
export function kindOf(row: string): CandidateKind {
  return isCandidateName(row) ? catalogue[row].kind : 'ours';
}
