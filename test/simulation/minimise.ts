// Makes a failing plan smaller: drops faults, then steps, as long as the same checker complains.
import { Universe } from './universe.js';
import type { Plan } from './plan.js';

/** A plan with as few faults and steps as can be found, and what is left to run it with. */
export async function minimise(plan: Plan, check: string): Promise<Plan> {
  const stillFails = async (candidate: Plan): Promise<boolean> => {
    const { findings } = await new Universe(candidate, false).run();
    return findings.some((finding) => finding.check === check);
  };
  const withFaults = (faults: Plan['faults']): Plan => ({ ...plan, faults });
  const faults = await shrink(plan.faults, (kept) => stillFails(withFaults(kept)));
  let smaller = withFaults(faults);
  for (const [index, client] of plan.clients.entries()) {
    for (const task of client.tasks.keys()) {
      const steps = smaller.clients[index]?.tasks[task] ?? [];
      const kept = await shrink(steps, (few) => stillFails(withTask(smaller, index, task, few)));
      smaller = withTask(smaller, index, task, kept);
    }
  }
  return smaller;
}

function withTask(
  plan: Plan,
  client: number,
  task: number,
  steps: Plan['clients'][0]['tasks'][0],
): Plan {
  const clients = plan.clients.map((one, index) => {
    if (index !== client) return one;
    return { ...one, tasks: one.tasks.map((other, place) => (place === task ? steps : other)) };
  });
  return { ...plan, clients };
}

// Drops ever smaller slices until no single item can go.
async function shrink<Item>(
  items: readonly Item[],
  stillFails: (kept: readonly Item[]) => Promise<boolean>,
): Promise<readonly Item[]> {
  let kept = items;
  for (let size = Math.max(1, items.length >> 1); size >= 1; size >>= 1) {
    for (let start = 0; start < kept.length;) {
      const fewer = [...kept.slice(0, start), ...kept.slice(start + size)];
      if (await stillFails(fewer)) kept = fewer;
      else start += size;
    }
  }
  return kept;
}
