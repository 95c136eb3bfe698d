// Many locks, held for a long time and extended by the library's own watchdog.
import { monitorEventLoopDelay } from 'node:perf_hooks';

import { pause } from '../measure/pause.js';
import { readMemory } from './memory.js';
import type { WireCount } from '../measure/wire-counter.js';
import type { Session } from './session.js';

export interface FillTask {
  readonly prefix: string;
  readonly count: number;
}

export interface FillResult {
  /** Bytes of heap for one kept lock. */
  readonly heapPerLock: number;
  /** In ms. */
  readonly duration: number;
}

export interface WatchTask {
  readonly seconds: number;
  /** Whether to count commands at the socket, which costs CPU for each of them. */
  readonly isCounted: boolean;
}

/** Times in ms. */
export interface WatchResult {
  readonly cpu: number;
  readonly duration: number;
  readonly wire: WireCount;
  readonly delayP50: number;
  readonly delayP99: number;
  /** How many of all kept locks the library reports as lost by now. */
  readonly lost: number;
}

const IN_FLIGHT = 64;

export async function fillUp(session: Session, { prefix, count }: FillTask): Promise<FillResult> {
  const before = readMemory();
  const startedAt = performance.now();
  let next = 0;
  const fill = async (): Promise<void> => {
    while (next < count) {
      const resource = `${prefix}:${next}`;
      next += 1;
      session.kept.push(await session.candidate.keep(resource));
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, fill));
  const duration = performance.now() - startedAt;
  const after = readMemory();
  return { heapPerLock: (after - before) / count, duration };
}

export async function watchKept(
  session: Session,
  { isCounted, seconds }: WatchTask,
): Promise<WatchResult> {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION });
  if (isCounted) session.wire.start();
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  delay.enable();
  await pause(seconds * 1_000);
  delay.disable();
  const { user, system } = process.cpuUsage(cpuBefore);
  return {
    cpu: (user + system) / 1_000,
    duration: performance.now() - startedAt,
    wire: session.wire.stop(),
    delayP50: delayOf(delay.percentile(50)),
    delayP99: delayOf(delay.percentile(99)),
    lost: session.kept.filter((kept) => kept.isLost()).length,
  };
}

// The histogram has the time between two samples, which should come every `resolution`.
const RESOLUTION = 1;

function delayOf(nanoseconds: number): number {
  return Math.max(0, nanoseconds / 1e6 - RESOLUTION);
}
