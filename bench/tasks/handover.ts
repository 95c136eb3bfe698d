// The two ends of a hand-over. Both report when, on the clock that all processes share.
import type { Session } from './session.js';

export interface TakeTask {
  readonly resource: string;
}

export interface TakeResult {
  /** When the lock was acquired, in ms of the machine's monotonic clock. */
  readonly acquiredAt: number;
}

export interface GiveTask {
  readonly resource: string;
}

export interface GiveResult {
  /** When `release` was called, in ms of the machine's monotonic clock. */
  readonly releasedAt: number;
}

export async function take(session: Session, { resource }: TakeTask): Promise<TakeResult> {
  const held = await session.candidate.acquire(resource);
  const acquiredAt = machineTime();
  session.held.set(resource, held);
  return { acquiredAt };
}

export async function give(session: Session, { resource }: GiveTask): Promise<GiveResult> {
  const held = session.held.get(resource);
  session.held.delete(resource);
  const releasedAt = machineTime();
  await held?.release();
  return { releasedAt };
}

// CLOCK_MONOTONIC. `performance.now` has another origin in each process.
function machineTime(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
