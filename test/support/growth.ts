import { collectGarbage } from './collect-garbage.js';

/**
 * How many times as much of this process's time ten times the `count` takes: some 10 times where
 * each costs the same, some 100 times where each looks at all others. A machine ten times busier
 * changes what both take, and not this; what else runs in between is why it is tried three times.
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
  let least = Infinity;
  for (let round = 0; round < 3 && least > LINEAR; round += 1) {
    few = Math.min(few, await costOf(1));
    least = Math.min(least, (await costOf(10)) / few);
  }
  return least;
}

/** Above, what is measured does not cost the same for each. */
export const LINEAR = 32;

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
