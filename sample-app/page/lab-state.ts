// What the page knows: only what the server has sent.
import { computed, signal } from '@preact/signals';

import { LINES_KEPT, VISITS_KEPT } from '../lab/kept.js';
import { LogBook } from '../lab/log-book.js';
import { Recent } from '../lab/recent.js';
import type {
  Changes,
  HeldByHand,
  Instant,
  JobState,
  LogLine,
  NodeState,
  SaleState,
  Setting,
  Snapshot,
  Visit,
  WatchedResource,
} from '../lab/messages.js';

/** All but the connection is null or empty until the server has sent it. */
export const connection = signal<'connecting' | 'open' | 'lost'>('connecting');
export const setting = signal<Setting | null>(null);
export const sale = signal<SaleState | null>(null);
export const job = signal<JobState | null>(null);
export const hands = signal<readonly HeldByHand[]>([]);
export const nodes = signal<readonly NodeState[]>([]);
export const resources = signal<readonly WatchedResource[]>([]);
export const log = signal<readonly LogLine[]>([]);
/** The last visits; a new list whenever one has changed. */
export const visits = signal<readonly Visit[]>([]);

/** The current time, for what runs down on the page; updated ten times a second. */
export const clock = signal<Instant>(0);

/** Whether there can be a sale here. */
export const canSell = computed(() => setting.value?.noSaleReason === '');

/** Whether the nodes may be broken here. */
export const canBreakNodes = computed(() => setting.value?.hasOwnNodes === true);

/** Nodes whose votes count now. */
export const voters = computed(() => nodes.value.filter(votes).length);

/** Nodes whose votes will count after some time. */
export const quarantined = computed(
  () => nodes.value.filter((node) => quarantineOf(node, clock.value) > 0).length,
);

let recentVisits = new Recent<Visit>(VISITS_KEPT);
let book = new LogBook(LINES_KEPT);
let bootId = '';
let offset = -Infinity;

/** The server's clock, now. */
export function serverNow(): Instant {
  return Number.isFinite(offset) ? performance.now() + offset : 0;
}

/** Replaces everything: after a reconnect the server may be another one. */
export function takeSnapshot(snapshot: Snapshot): void {
  if (snapshot.bootId !== bootId) offset = -Infinity;
  bootId = snapshot.bootId;
  recentVisits = new Recent(VISITS_KEPT);
  book = new LogBook(LINES_KEPT);
  setting.value = snapshot.setting;
  takeChanges(snapshot);
}

export function takeChanges(changes: Changes): void {
  // Each message is late by its time on the way: the one that was least late is closest.
  offset = Math.max(offset, changes.now - performance.now());
  if (changes.sale !== undefined) sale.value = changes.sale;
  if (changes.job !== undefined) job.value = changes.job;
  if (changes.hands !== undefined) hands.value = changes.hands;
  if (changes.nodes !== undefined) nodes.value = changes.nodes;
  if (changes.resources !== undefined) resources.value = changes.resources;
  if (changes.visits !== undefined) {
    for (const visit of changes.visits) recentVisits.set(visit.id, visit);
    visits.value = recentVisits.values;
  }
  if (changes.log !== undefined) {
    for (const line of changes.log) book.add(line);
    log.value = book.lines;
  }
}

/** For how long, in ms, a node's votes do not count yet. */
export function quarantineOf(node: NodeState, now: Instant): number {
  return leftOf(node.status.quarantineRemaining, node.at, now);
}

/** What is left now of a time that was `remaining` ms at `at`. */
export function leftOf(remaining: number, at: Instant, now: Instant): number {
  return Math.max(0, remaining - Math.max(0, now - at));
}

function votes(node: NodeState): boolean {
  return node.status.state === 'up' && quarantineOf(node, clock.value) === 0;
}
