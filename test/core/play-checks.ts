// What random plays look for, whatever their callers do: two holders, and what is left in the end.
import type { Lock } from '../../lib/core/lock.js';
import type { RedlockStatus } from '../../lib/core/redlock.js';
import type { Scene } from './scene.js';

/** What so many plays find, of the seeds 1, 2, 3, … */
export async function findingsOf(
  count: number,
  playOf: (seed: number) => { run(): Promise<unknown>; readonly findings: readonly string[] },
): Promise<string[]> {
  const findings: string[] = [];
  for (let seed = 1; seed <= count; seed += 1) {
    const play = playOf(seed);
    await play.run();
    findings.push(...play.findings);
  }
  return findings;
}

/** The resources that two of these locks hold at once, each with both owners. */
export function overlapsOf(locks: Iterable<Lock>): string[] {
  const holders = new Map<string, Lock>();
  const overlaps: string[] = [];
  for (const lock of locks) {
    if (!lock.isValid) continue;
    for (const resource of lock.resources) {
      const other = holders.get(resource);
      if (other !== undefined) overlaps.push(`${resource}: ${other.ownerId} and ${lock.ownerId}`);
      holders.set(resource, lock);
    }
  }
  return overlaps;
}

/** What processes and nodes still keep when everything has ended. */
export async function remainsOf(
  { environment, nodes, owners }: Scene,
  processes: readonly { status(): RedlockStatus | Promise<RedlockStatus> }[],
  resources: readonly string[],
): Promise<string[]> {
  const remains: string[] = [];
  for (const redlock of processes) {
    const { held, waiting } = await redlock.status();
    if (held + waiting > 0) remains.push(`${held} locks held, ${waiting} calls waiting`);
  }
  if (environment.pendingTimers > 0) remains.push(`${environment.pendingTimers} timers`);
  for (const resource of resources) {
    const left = (await owners(resource)).filter((owner) => owner !== null);
    const listeners = nodes.map((node) => node.listenersOf(resource));
    if (left.length > 0) remains.push(`keys of ${resource} left: ${left.join()}`);
    if (listeners.some((count) => count > 0)) remains.push(`${resource} is still listened for`);
  }
  return remains;
}
