import { minimise } from './minimise.js';
import { drawPlan } from './plan.js';
import { Universe } from './universe.js';
import type { Plan } from './plan.js';
import type { Totals } from './run-seeds.js';
import type { Outcome } from './universe.js';

/** What a run did, for people. */
export function describeTotals(totals: Totals, seconds: number): string {
  const faults = [...totals.faults].sort(([a], [b]) => (a < b ? -1 : 1));
  const rate = Math.round(totals.universes / seconds);
  return [
    `${totals.universes} seeds in ${seconds.toFixed(1)} s (${rate} per second), ` +
      `${totals.events} events, ${totals.acquisitions} acquisitions, ` +
      `${totals.handOvers} of them by hand-over`,
    `faults: ${faults.map(([kind, count]) => `${kind} ${count}`).join(', ')}`,
    `failed seeds: ${totals.failures.length}`,
  ].join('\n');
}

/** A failure: its seed, the smallest schedule that still fails, and what happens in it. */
export async function describeFailure(failure: Outcome): Promise<string> {
  const [finding] = failure.findings;
  if (finding === undefined) return `seed ${failure.seed} did not fail`;
  const plan = await minimise(drawPlan(failure.seed), finding.check);
  const { findings, trace } = await new Universe(plan, true).run();
  return [
    `seed ${failure.seed}: ${finding.check}: ${finding.message}`,
    'smallest schedule that fails alike:',
    describePlan(plan),
    'what happens in it (true ms, who, what):',
    ...(trace.length > LINES_MAX ? ['  …'] : []),
    ...trace.slice(-LINES_MAX),
    ...findings.map(({ check, at, message }) => `at ${at.toFixed(3)}: ${check}: ${message}`),
  ].join('\n');
}

/** The trace of one seed as it is drawn, and whether no rule was broken in it. */
export async function describeSeed(seed: number): Promise<{ text: string; isClean: boolean }> {
  const plan = drawPlan(seed);
  const { findings, trace } = await new Universe(plan, true).run();
  const complaints = findings.map(({ check, at, message }) => `at ${at}: ${check}: ${message}`);
  const lines = [describePlan(plan), ...trace, ...complaints, `findings: ${findings.length}`];
  return { text: lines.join('\n'), isClean: findings.length === 0 };
}

function describePlan(plan: Plan): string {
  const { faults, clients, nodes, ...world } = plan;
  return [
    `  world ${JSON.stringify(world)}`,
    ...nodes.map((node, index) => `  node-${index} ${JSON.stringify(node)}`),
    ...clients.flatMap(({ tasks, ...client }, index) => [
      `  client-${index} ${JSON.stringify(client)}`,
      ...tasks.flatMap((task) => task.map((step) => `    step ${JSON.stringify(step)}`)),
    ]),
    ...faults.map((fault) => `  fault ${JSON.stringify(fault)}`),
  ].join('\n');
}

/** The end of a trace is what matters; the whole is there by a replay. */
const LINES_MAX = 200;
