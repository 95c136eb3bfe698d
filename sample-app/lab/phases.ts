// What the phases mean, to the server that refuses and to the page that does not offer.
import type { JobState, SaleState } from './messages.js';

/** Whether a sale is under way: it has to end before another begins. */
export function isSelling(state: SaleState | null): boolean {
  return state !== null && ['starting', 'running', 'stopping'].includes(state.phase);
}

/** Whether the job is under way: it has to end before it begins anew. */
export function isWorking(state: JobState | null): boolean {
  return state !== null && ['waiting', 'running', 'taking over'].includes(state.phase);
}
