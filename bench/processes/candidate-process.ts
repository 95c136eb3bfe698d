// A candidate as the runner sees it: somewhere else, running tasks.
import type { SessionSetup, TaskName, Tasks } from '../tasks/session.js';

/** One connected candidate. */
export interface CandidateProcess {
  /** Rejects when the task fails, its process ends, or `limit` ms are over; then it is ended. */
  run<Name extends TaskName>(
    name: Name,
    input: Tasks[Name]['input'],
    limit: number,
  ): Promise<Tasks[Name]['output']>;
  /** Ends it. Never rejects. */
  stop(): Promise<void>;
}

/** Starts a candidate and resolves when it is connected. */
export type Launch = (setup: SessionSetup) => Promise<CandidateProcess>;

/** What the runner wants of a child process. */
export type Order =
  | { readonly kind: 'open'; readonly setup: SessionSetup }
  | { readonly kind: 'run'; readonly name: TaskName; readonly input: unknown }
  | { readonly kind: 'close' };

/** What it sends to the child process. */
export type NumberedOrder = Order & { readonly id: number };

/** What the child process answers. */
export type Answer =
  | { readonly id: number; readonly output: unknown }
  | { readonly id: number; readonly error: string };
