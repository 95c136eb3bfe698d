// The figures of a torture run, for people.
import { describeFault } from './fault-plan.js';
import { longestOverlap, type Violation } from './history-check.js';
import type { HistoryEvent } from './history.js';
import type { Round, TortureResult } from './torture-run.js';

/** One line for a round. */
export function describeRound({ startedAt, faults, recoveries }: Round): string {
  const slowest = recoveries.map(({ took }) => (took === null ? 'never' : `${Math.round(took)}`));
  const hits = faults.length === 0 ? 'no faults' : faults.map(describeFault).join(', ');
  return `${(startedAt / 1_000).toFixed(1)} s: ${hits}; each again after ${slowest.join(', ')} ms`;
}

/** What happened in the run, and what is wrong with it. */
export function describeResult(result: TortureResult, violations: readonly Violation[]): string {
  const { events, faults, folder, recoveries } = result;
  const count = (kind: HistoryEvent['kind']): number =>
    events.filter((event) => event.kind === kind).length;
  const fenced = events.filter((event) => event.kind === 'fenced');
  const refused = fenced.filter(({ isAccepted }) => !isAccepted).length;
  const increments = events.filter((event) => event.kind === 'incremented');
  const inDoubt = increments.filter(({ isSure }) => !isSure).length;
  const overlap = longestOverlap(events);
  const shown = violations.slice(0, SHOWN_MAX).map(({ check, message }) => `${check}: ${message}`);
  return [
    `acquisitions ${count('grant')}, extensions seen ${extensionsIn(events)}, ` +
      `refusals: ${tally(codesOf(events))}, losses: ${tally(reasonsOf(events))}`,
    `fenced writes ${fenced.length}, of which refused ${refused}; ` +
      `unfenced writes ${increments.length}, of which in doubt ${inDoubt}`,
    `faults ${faults.length}: ${tally(faults)}`,
    `max overlap ${Math.max(0, overlap).toFixed(3)} ms` +
      (overlap < 0 ? `, closest hand-over ${(-overlap).toFixed(3)} ms` : ''),
    `recovery ${describeRecoveries(recoveries)}`,
    `violations ${violations.length}${violations.length === 0 ? '' : `, histories in ${folder}`}`,
    ...shown,
  ].join('\n');
}

// By hand or by the watchdog: each time that a lock was seen, it may promise more than before.
function extensionsIn(events: readonly HistoryEvent[]): number {
  const promises = new Map<string, number>();
  return events.reduce((count, event) => {
    if (event.kind !== 'held') return count;
    const before = promises.get(event.lock) ?? Infinity;
    promises.set(event.lock, event.promisedUntil);
    return event.promisedUntil > before + 1 ? count + 1 : count;
  }, 0);
}

function describeRecoveries(recoveries: TortureResult['recoveries']): string {
  const times = recoveries.map(({ took }) => took ?? Infinity).sort((a, b) => a - b);
  const [p50 = 0, max = 0] = [times[times.length >> 1], times.at(-1)];
  return `p50 ${Math.round(p50)} ms, max ${Math.round(max)} ms, of ${times.length}`;
}

function tally(names: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  const sorted = [...counts].sort(([, a], [, b]) => b - a);
  return sorted.length === 0 ? 'none' : sorted.map(([name, n]) => `${name} ${n}`).join(', ');
}

function codesOf(events: readonly HistoryEvent[]): string[] {
  return events.flatMap((event) => (event.kind === 'refused' ? [event.code] : []));
}

function reasonsOf(events: readonly HistoryEvent[]): string[] {
  return events.flatMap((event) => (event.kind === 'lost' ? [event.reason] : []));
}

const SHOWN_MAX = 20;
