import { signal } from '@preact/signals';

import type { NodeState, SaleSettings } from '../lab/messages.js';
import { post } from './http-call.js';
import { nodes } from './lab-state.js';

/** Why the last click did nothing; empty when it did. */
export const complaint = signal('');

/** Asks the server for something, and shows why when it does not want to. */
export async function send(path: string, body: object = {}): Promise<void> {
  try {
    const response = await post(path, body);
    complaint.value = response.ok ? '' : await reasonOf(response);
  } catch {
    complaint.value = 'The server cannot be reached.';
  }
}

/** What was changed in the form of the sale since the last start. */
export const saleEdits = signal<Partial<SaleSettings>>({});

export function startSale(settings: SaleSettings): Promise<void> {
  saleEdits.value = {};
  return send('/lab/sale/start', settings);
}

export type Treatment = 'freeze' | 'thaw' | 'kill' | 'restart' | 'slow' | 'quick';

/** @param numbers of nodes, from 1 */
export async function treat(numbers: readonly number[], treatment: Treatment): Promise<void> {
  await Promise.all(numbers.map((number) => send(`/lab/nodes/${number}/${treatment}`)));
}

/** Thaws, restarts and quickens what is not as it was. */
export async function healNodes(): Promise<void> {
  const heal = (treatment: Treatment, isMeant: (node: NodeState) => boolean): Promise<void> => {
    const numbers = nodes.value.flatMap((node, index) => (isMeant(node) ? [index + 1] : []));
    return treat(numbers, treatment);
  };
  await Promise.all([
    heal('thaw', ({ process }) => process === 'frozen'),
    heal('restart', ({ process }) => process === 'killed'),
    heal('quick', ({ delay }) => delay > 0),
  ]);
}

async function reasonOf(response: Response): Promise<string> {
  const answer = (await response.json()) as { readonly message?: string | string[] };
  return `${response.status}: ${String(answer.message ?? response.statusText)}`;
}
