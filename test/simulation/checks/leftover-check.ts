// What is left on the servers when everybody is done: no key of a lock that was released or was
// never granted, and none that lives longer than a ttl.
import type { SimulatedProcess } from '../simulated-process.js';
import type { Universe } from '../universe.js';

/** Looks at every server, once all faults have ended and everyone has been idle for a while. */
export function checkLeftovers(universe: Universe, processes: readonly SimulatedProcess[]): void {
  const { scheduler, servers, findings, plan } = universe;
  const ownerOf = (value: string): SimulatedProcess | undefined =>
    processes.find(({ report }) => value.startsWith(`${report.name}.`));
  for (const server of servers) {
    const { now } = server.moment();
    for (const resource of plan.resources) {
      const stored = server.model.data.get(resource);
      if (typeof stored?.value !== 'string' || stored.expiresAt < now / 1_000) continue;
      const left = stored.expiresAt - now / 1_000;
      // A clock that was set back lets a key live longer.
      if (left > plan.ttlMax * 1.34 && plan.guarantee === 'sound') {
        const message = `${resource} stays on ${server.name} for ${left} ms`;
        findings.add('leftovers', scheduler.now, message);
      }
      const owner = ownerOf(stored.value);
      if (owner === undefined || owner.isEnded || owner.isClosing) continue;
      if (owner.abandoned.has(stored.value) || server.ghosts.has(stored.value)) continue;
      const message = `${server.name} still has ${resource} for ${stored.value}, which is over`;
      findings.add('leftovers', scheduler.now, message);
    }
  }
}
