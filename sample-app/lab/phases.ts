// What each phase allows: by this the server refuses an action, and the page does not offer it.
import type { JobState, SaleState } from './messages.js';

/** Whether a sale is under way: it has to end before another begins. */
export function isSelling(state: SaleState | null): boolean {
  return state !== null && ['starting', 'running', 'stopping'].includes(state.phase);
}

/** Whether the job is under way: it has to end before it can begin again. */
export function isWorking(state: JobState | null): boolean {
  return state !== null && ['waiting', 'running', 'taking over'].includes(state.phase);
}
