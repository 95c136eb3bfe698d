// Keeps the cores awake while something is measured. An idle core sleeps, and in a virtual machine
// takes tens of microseconds to wake: the less there is to do, the longer it takes. Only for
// latencies one at a time: a core kept awake takes over no work from a busy one for some ms.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';

/** What keeps the cores awake. */
export interface AwakeCores {
  /** The processes, one for each core. */
  readonly pids: readonly number[];
  end(): void;
}

// Ends with its parent, even if that is killed.
const spin = 'const parent = process.ppid; while (process.ppid === parent);';

/**
 * Starts a process for each core, which runs only when nothing else wants the core.
 * @throws Error if there is no `chrt`.
 */
export async function keepCoresAwake(): Promise<AwakeCores> {
  const children = Array.from({ length: availableParallelism() }, () =>
    spawn('chrt', ['--idle', '0', process.execPath, '-e', spin], { stdio: 'ignore' }),
  );
  // They do not keep this process from ending either.
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
