// Which faults a round of a torture run has: drawn from the seed alone, before it begins.
import type { Milliseconds } from 'nestjs-locked';

import type { Random } from '../simulation/random.js';
import { faultEntry, faultKinds, type FaultEntry, type FaultKind } from './fault-table.js';

/** One fault of a round. */
export interface PlannedFault {
  readonly kind: FaultKind;
  /** Since the beginning of the round. */
  readonly from: Milliseconds;
  readonly until: Milliseconds;
  /** The node that is hit, or to which the path leads; with a worker alone: of no meaning. */
  readonly node: number;
  /** The worker that is hit, or whose path it is; with a node alone: of no meaning. */
  readonly worker: number;
  /** 0 to 1: how hard, where that can be chosen. */
  readonly severity: number;
}

export interface Ensemble {
  readonly nodes: number;
  readonly workers: number;
}

/**
 * Draws a round: some faults that overlap, no two at the same target at once. In most rounds
 * all hits on nodes and paths are within a minority of nodes, so that locks go on; in the
 * others whatever comes, and in some a majority forgets all locks within moments.
 */
export function drawRound(random: Random, { nodes, workers }: Ensemble): PlannedFault[] {
  const order = shuffled(random, nodes);
  const minority = (nodes - 1) >> 1;
  const exposed = order.slice(0, random.chance(0.6) ? minority : nodes);
  const busyUntil = new Map<string, Milliseconds>();
  const faults = random.chance(0.3) ? drawAmnesia(random, order) : [];
  for (const { node, until } of faults) busyUntil.set(`node-${node}`, until + PAUSE);
  const count = random.integer(6, 16);
  for (let index = 0; index < count; index += 1) {
    const kind = drawKind(random);
    const entry = faultEntry(kind);
    const node = random.pick(entry.onlyMinority === true ? order.slice(0, minority) : exposed);
    const worker = random.integer(0, workers - 1);
    const target = targetOf(entry, node, worker);
    const freeAt = busyUntil.get(target) ?? 0;
    if (freeAt > ROUND_MAX) continue;
    const from = random.between(freeAt, ROUND_MAX);
    const until = from + random.between(entry.duration.min, entry.duration.max);
    const severity = random.next();
    if (until > ROUND_MAX) continue;
    // How long a killed worker takes to start is up to the machine: it is left alone from then on.
    busyUntil.set(target, kind === 'kill worker' ? Infinity : until + PAUSE);
    faults.push({ kind, from, until, node, worker, severity });
  }
  return faults.sort((a, b) => a.from - b.from);
}

/** What a fault hits, for people. */
export function describeFault({ kind, node, worker, from, until }: PlannedFault): string {
  const length = until === from ? '' : ` for ${Math.round(until - from)} ms`;
  return `${kind} (${targetOf(faultEntry(kind), node, worker)}${length})`;
}

// As in a power failure, or by a script that an operator runs against all servers.
function drawAmnesia(random: Random, nodes: readonly number[]): PlannedFault[] {
  const kind = random.pick(['flush', 'restart'] as const);
  const { duration } = faultEntry(kind);
  const length = random.between(duration.min, duration.max);
  const at = random.between(0, ROUND_MAX - length - AMNESIA_SPREAD);
  const hit = nodes.slice(0, random.integer((nodes.length >> 1) + 1, nodes.length));
  return hit.map((node) => {
    const from = at + random.between(0, AMNESIA_SPREAD);
    return { kind, from, until: from + length, node, worker: 0, severity: 0 };
  });
}

function drawKind(random: Random): FaultKind {
  const total = faultKinds.reduce((sum, kind) => sum + faultEntry(kind).weight, 0);
  let left = random.between(0, total);
  const drawn = faultKinds.find((kind) => {
    left -= faultEntry(kind).weight;
    return left < 0;
  });
  return drawn ?? 'reset';
}

function targetOf({ target }: FaultEntry, node: number, worker: number): string {
  if (target === 'node') return `node-${node}`;
  return target === 'worker' ? `worker-${worker}` : `worker-${worker} to node-${node}`;
}

function shuffled(random: Random, count: number): number[] {
  const rest = Array.from({ length: count }, (_, index) => index);
  return Array.from({ length: count }, () => {
    const [drawn = 0] = rest.splice(random.integer(0, rest.length - 1), 1);
    return drawn;
  });
}

const ROUND_MAX: Milliseconds = 3_500;
const PAUSE: Milliseconds = 200;
const AMNESIA_SPREAD: Milliseconds = 100;
