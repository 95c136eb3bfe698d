// What the workers of a torture run did and saw, one JSON line per event.
//
// A line is written in one synchronous call, so that it survives the SIGKILL of its writer.
import { openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';

import type { Milliseconds } from 'nestjs-locked';

/** One event. Instants are of {@link instantNow}: all processes of a machine share that clock. */
export type HistoryEvent =
  | GrantEvent
  | HeldEvent
  | { readonly kind: 'ended'; readonly lock: string; readonly at: Milliseconds }
  | { readonly kind: 'lost'; readonly lock: string; readonly reason: string }
  | { readonly kind: 'revived'; readonly lock: string; readonly at: Milliseconds }
  | { readonly kind: 'refused'; readonly code: string }
  | { readonly kind: 'incremented'; readonly increment: string; readonly isSure: boolean }
  | { readonly kind: 'fenced'; readonly isAccepted: boolean }
  | { readonly kind: 'crashed'; readonly message: string };

/** An acquisition succeeded. */
export interface GrantEvent {
  readonly kind: 'grant';
  /** Names the lock over all workers and their restarts. */
  readonly lock: string;
  readonly resources: readonly string[];
  readonly token: number;
  /** Read before the call. */
  readonly calledAt: Milliseconds;
  /** Read after the call. */
  readonly at: Milliseconds;
}

/** The lock said that it is held. */
export interface HeldEvent {
  readonly kind: 'held';
  readonly lock: string;
  /** Read before the lock was asked: it was held then, as it was so later. */
  readonly at: Milliseconds;
  /** `at` and what the lock said to remain: not later than the end of its validity. */
  readonly promisedUntil: Milliseconds;
}

/** CLOCK_MONOTONIC, which has no other start in another process. */
export function instantNow(): Milliseconds {
  return Number(process.hrtime.bigint()) / 1_000_000;
}

/** Writes events to a file of its own. */
export class HistoryWriter {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, 'a');
  }

  write(event: HistoryEvent): void {
    writeSync(this.#file, `${JSON.stringify(event)}\n`);
  }
}

/** Reads all histories of a folder. */
export function readHistories(folder: string): HistoryEvent[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.jsonl'))
    .flatMap((name) => readFileSync(join(folder, name), 'utf8').trimEnd().split('\n'))
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as HistoryEvent);
}
