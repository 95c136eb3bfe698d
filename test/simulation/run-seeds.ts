// Runs universes one after the other and adds up what they did.
import { drawPlan } from './plan.js';
import { Universe } from './universe.js';
import type { Outcome } from './universe.js';

/** Sums over many universes. */
export interface Totals {
  universes: number;
  events: number;
  acquisitions: number;
  handOvers: number;
  readonly faults: Map<string, number>;
  readonly failures: Outcome[];
}

/** Runs `count` seeds from `from` on; stops after `failuresMax` seeds that failed. */
export async function runSeeds(from: number, count: number, failuresMax: number): Promise<Totals> {
  const totals: Totals = {
    universes: 0,
    events: 0,
    acquisitions: 0,
    handOvers: 0,
    faults: new Map(),
    failures: [],
  };
  for (let seed = from; seed < from + count; seed += 1) {
    const outcome = await new Universe(drawPlan(seed), false).run();
    totals.universes += 1;
    totals.events += outcome.events;
    totals.acquisitions += outcome.acquisitions;
    totals.handOvers += outcome.handOvers;
    for (const [kind, number] of outcome.faults) {
      totals.faults.set(kind, (totals.faults.get(kind) ?? 0) + number);
    }
    if (outcome.findings.length === 0) continue;
    totals.failures.push(outcome);
    if (totals.failures.length >= failuresMax) break;
  }
  return totals;
}
