// Keeps the cores awake while something is measured. One that has nothing to do sleeps, and in a
// virtual machine takes tens of microseconds to wake: the less there is to do, the longer it takes.
// For latencies one at a time: a core that is awake takes no work over from a busy one for some ms.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';

/** What keeps the cores awake. */
export interface AwakeCores {
  /** The processes, one for each core. */
  readonly pids: readonly number[];
  end(): void;
}

// It ends with its parent too, where that is killed.
const spin = 'const parent = process.ppid; while (process.ppid === parent);';

/**
 * Starts a process for each core that runs only where nobody else wants to.
 * @throws Error where there is no `chrt`.
 */
export async function keepCoresAwake(): Promise<AwakeCores> {
  const children = Array.from({ length: availableParallelism() }, () =>
    spawn('chrt', ['--idle', '0', process.execPath, '-e', spin], { stdio: 'ignore' }),
  );
  // Nor do they keep it from its end.
  for (const child of children) child.unref();
  try {
    await Promise.all(children.map((child) => once(child, 'spawn')));
  } catch (cause) {
    throw new Error('Keeping the cores awake takes chrt, of util-linux', { cause });
  }
  return {
    pids: children.flatMap(({ pid }) => pid ?? []),
    end: () => children.forEach((child) => child.kill()),
  };
}
