// Judges the history of a torture run. It knows nothing of how the run was made; what must hold
// under which faults it takes from fault-table.ts.
import type { Milliseconds } from 'nestjs-locked';

import { promisesUnder, type FaultKind, type Guarantee } from './fault-table.js';
import type { GrantEvent, HistoryEvent } from './history.js';

/** Everything that is known after a run. */
export interface RunRecord {
  readonly events: readonly HistoryEvent[];
  readonly faults: readonly FaultKind[];
  readonly isQuarantined: boolean;
  /** The fenced register of each resource: its accepted writes, in the order of the store. */
  readonly registers: Readonly<Record<string, readonly RegisterWrite[]>>;
  /** The counter of each resource, guarded by the lock alone: its writes, likewise. */
  readonly counters: Readonly<Record<string, readonly CounterWrite[]>>;
  readonly recoveries: readonly Recovery[];
  /** Workers that ended although nobody had asked them to. */
  readonly deaths: readonly string[];
  /** Keys on the nodes after the last ttl, without the certificates. */
  readonly leftovers: readonly string[];
}

export interface RegisterWrite {
  readonly token: number;
  readonly read: number;
  readonly written: number;
}

export interface CounterWrite {
  /** Names this write and no other. */
  readonly increment: string;
  readonly read: number;
  readonly written: number;
}

/** How long a worker took to acquire again after all faults had ended. */
export interface Recovery {
  readonly worker: string;
  /** Null: it did not within the limit. */
  readonly took: Milliseconds | null;
  /** The limit, and what the machine itself lost by being busy. */
  readonly limit: Milliseconds;
}

export interface Violation {
  readonly check: Guarantee;
  readonly message: string;
}

export interface Claim {
  readonly lock: string;
  readonly token: number;
  readonly start: Milliseconds;
  /** Until when the lock was seen to be held, or had promised to be. */
  readonly end: Milliseconds;
}

/** What is wrong with a run; nothing, where it kept all promises. */
export function checkRun(record: RunRecord): Violation[] {
  const promised = promisesUnder(record.faults, record.isQuarantined);
  return [
    ...checkExclusion(record),
    ...checkTokens(record.events),
    ...checkRegisters(record.registers),
    ...checkCounters(record),
    ...checkRecoveries(record.recoveries),
    ...checkProcesses(record),
    ...record.leftovers.map((key) => violation('leftovers', `${key} outlived every ttl`)),
  ].filter(({ check }) => promised.has(check));
}

/** The claimed intervals of each resource, in the order of their beginnings. */
export function claimsByResource(events: readonly HistoryEvent[]): Map<string, Claim[]> {
  const ends = claimEnds(events);
  const claims = new Map<string, Claim[]>();
  for (const { lock, token, at, resources } of grantsOf(events)) {
    const end = ends.get(lock);
    // One that was over before anybody asked claims nothing.
    if (end === undefined || end < at) continue;
    for (const resource of resources) {
      add(claims, resource, { lock, token, start: at, end });
    }
  }
  for (const list of claims.values()) list.sort((a, b) => a.start - b.start);
  return claims;
}

/** The longest time that two claims of one resource shared, in ms; negative: the closest gap. */
export function longestOverlap(events: readonly HistoryEvent[]): Milliseconds {
  return [...claimsByResource(events).values()]
    .flatMap(overlapsOf)
    .reduce((longest, { length }) => Math.max(longest, length), -Infinity);
}

function claimEnds(events: readonly HistoryEvent[]): Map<string, Milliseconds> {
  const ends = new Map<string, Milliseconds>();
  for (const event of events) {
    if (event.kind !== 'held') continue;
    ends.set(event.lock, Math.max(ends.get(event.lock) ?? 0, event.at, event.promisedUntil));
  }
  // Who lets go gives the rest of the promise back.
  for (const event of events) {
    if (event.kind !== 'ended') continue;
    ends.set(event.lock, Math.min(ends.get(event.lock) ?? -Infinity, event.at));
  }
  return ends;
}

interface Overlap {
  readonly length: Milliseconds;
  readonly earlier: Claim;
  readonly later: Claim;
}

// Each claim against the one before it that reaches furthest.
function overlapsOf(claims: readonly Claim[]): Overlap[] {
  const overlaps: Overlap[] = [];
  let furthest: Claim | undefined;
  for (const claim of claims) {
    if (furthest !== undefined) {
      const length = Math.min(furthest.end, claim.end) - claim.start;
      overlaps.push({ length, earlier: furthest, later: claim });
    }
    if (furthest === undefined || claim.end > furthest.end) furthest = claim;
  }
  return overlaps;
}

function checkExclusion({ events }: RunRecord): Violation[] {
  return [...claimsByResource(events)].flatMap(([resource, claims]) =>
    overlapsOf(claims)
      .filter(({ length }) => length > 0)
      .map(({ length, earlier, later }) =>
        violation(
          'exclusion',
          `${earlier.lock} and ${later.lock} both held ${resource} for ${length.toFixed(3)} ms ` +
            `from ${later.start.toFixed(3)} on`,
        ),
      ),
  );
}

function checkTokens(events: readonly HistoryEvent[]): Violation[] {
  const byResource = new Map<string, GrantEvent[]>();
  for (const grant of grantsOf(events)) {
    for (const resource of grant.resources) add(byResource, resource, grant);
  }
  return [...byResource].flatMap(([resource, grants]) => [
    ...equalTokens(resource, grants),
    ...fallingTokens(resource, grants),
  ]);
}

function equalTokens(resource: string, grants: readonly GrantEvent[]): Violation[] {
  const seen = new Map<number, string>();
  return grants.flatMap(({ lock, token }) => {
    const twin = seen.get(token);
    seen.set(token, lock);
    return twin === undefined
      ? []
      : [violation('tokens', `${twin} and ${lock} both have token ${token} of ${resource}`)];
  });
}

// A grant that was known before another was asked for has the smaller token.
function fallingTokens(resource: string, grants: readonly GrantEvent[]): Violation[] {
  const byEnd = [...grants].sort((a, b) => a.at - b.at);
  const byCall = [...grants].sort((a, b) => a.calledAt - b.calledAt);
  const violations: Violation[] = [];
  let known = 0;
  let highest: GrantEvent | undefined;
  for (const grant of byCall) {
    for (let next = byEnd[known]; next !== undefined && next.at < grant.calledAt;) {
      if (highest === undefined || next.token > highest.token) highest = next;
      known += 1;
      next = byEnd[known];
    }
    if (highest !== undefined && grant.token < highest.token) {
      const message = `${grant.lock} came after ${highest.lock} and has the smaller token`;
      violations.push(violation('tokens', `${message} of ${resource}`));
    }
  }
  return violations;
}

function checkRegisters(registers: RunRecord['registers']): Violation[] {
  return Object.entries(registers).flatMap(([resource, writes]) =>
    writes.flatMap((write, index) => {
      const before = writes[index - 1] ?? { token: 0, written: 0 };
      const name = `the fenced register of ${resource}`;
      return [
        ...(write.token < before.token
          ? [violation('register', `${name} went back from ${before.token} to ${write.token}`)]
          : []),
        ...(write.read !== before.written || write.written !== write.read + 1
          ? [violation('register', `${name} lost an update: ${before.written}, ${write.written}`)]
          : []),
      ];
    }),
  );
}

// A write in doubt came when the lock may have been over: it may undo another's, or be undone.
function checkCounters({ events, counters }: RunRecord): Violation[] {
  const sure = new Set<string>();
  for (const event of events) {
    if (event.kind === 'incremented' && event.isSure) sure.add(event.increment);
  }
  const known = new Set<string>();
  return Object.entries(counters).flatMap(([resource, writes]) =>
    writes.flatMap((write, index) => {
      const { increment } = write;
      if (known.has(increment)) return [violation('counter', `${increment} names two writes`)];
      known.add(increment);
      const before = writes[index - 1];
      const isPromised =
        sure.has(increment) && (before === undefined || sure.has(before.increment));
      if (!isPromised || write.read === (before?.written ?? 0)) return [];
      const loser = before?.increment ?? 'nobody';
      return [violation('counter', `${increment} undid ${loser} on ${resource}`)];
    }),
  );
}

function checkRecoveries(recoveries: readonly Recovery[]): Violation[] {
  return recoveries
    .filter(({ took }) => took === null)
    .map(({ worker, limit }) =>
      violation('availability', `${worker} acquired nothing for ${Math.round(limit)} ms`),
    );
}

function checkProcesses({ events, deaths }: RunRecord): Violation[] {
  return [
    ...deaths.map((death) => violation('crash', death)),
    ...events.flatMap((event) => {
      if (event.kind === 'crashed') return [violation('crash', event.message)];
      if (event.kind !== 'revived') return [];
      return [violation('revival', `${event.lock} was lost and came back at ${event.at}`)];
    }),
  ];
}

function grantsOf(events: readonly HistoryEvent[]): GrantEvent[] {
  return events.filter((event) => event.kind === 'grant');
}

function add<Item>(lists: Map<string, Item[]>, name: string, item: Item): void {
  const list = lists.get(name);
  if (list === undefined) lists.set(name, [item]);
  else list.push(item);
}

function violation(check: Guarantee, message: string): Violation {
  return { check, message };
}
