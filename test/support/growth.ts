import { collectGarbage } from './collect-garbage.js';

/**
 * How many times as much of this process's time ten times the `count` takes: some 10 times where
 * each costs the same, some 100 times where each looks at all others. A machine ten times busier
 * changes what both take, and not this. What else runs in between, such as the collection of
 * garbage, may take longer than all of it: the least of up to ten tries counts.
 *
 * @param prepare - makes ready what is to be measured, and gives that
 */
export async function growth(
  prepare: (count: number) => Promise<Action> | Action,
  count: number,
): Promise<number> {
  const costOf = async (times: number): Promise<number> => cost(await prepare(times * count));
  // The first one is not compiled yet.
  let few = await costOf(1);
  let many = Infinity;
  for (let tries = 0; tries < 10 && many / few > LINEAR; tries += 1) {
    few = Math.min(few, await costOf(1));
    many = Math.min(many, await costOf(10));
    if (many > DISTURBANCE_MAX) break;
  }
  return many / few;
}

/** Above, what is measured does not cost the same for each. */
export const LINEAR = 32;

/** In µs: what takes longer was not merely disturbed. */
const DISTURBANCE_MAX = 1_000_000;

/** By how many bytes the heap is larger after a second round of what is to leave nothing behind. */
export async function heapGrowth(use: (round: string) => Promise<void>): Promise<number> {
  const heapAfter = async (round: string): Promise<number> => {
    await use(round);
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  return -(await heapAfter('first')) + (await heapAfter('second'));
}

type Action = () => unknown;

async function cost(action: Action): Promise<number> {
  collectGarbage({ type: 'minor' });
  const before = process.cpuUsage();
  await action();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
