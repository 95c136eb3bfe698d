import { signal } from '@preact/signals';

import type { NodeState, SaleSettings } from '../lab/messages.js';
import { isSelling } from '../lab/phases.js';
import { saleDefaults } from '../lab/sale-defaults.js';
import { post } from './http-call.js';
import { nodes, sale } from './lab-state.js';

/** Why the last click did nothing; empty when it did. */
export const complaint = signal('');

/** Asks the server for something; if it refuses, shows why. */
export async function send(path: string, body: object = {}): Promise<void> {
  try {
    const response = await post(path, body);
    complaint.value = response.ok ? '' : await reasonOf(response);
  } catch {
    complaint.value = 'No answer to the last click: the server could not be reached.';
  }
}

/** What was changed in the sale's form since its last start. */
export const saleEdits = signal<Partial<SaleSettings>>({});

let starting: Promise<void> | null = null;

/** Resolves when the page shows the sale, or why there is none. */
export function startSale(settings: SaleSettings): Promise<void> {
  saleEdits.value = {};
  starting = start(settings).finally(() => (starting = null));
  return starting;
}

/** Resolves when there is a sale to see: one already running or starting, else a new one. */
export async function haveSale(): Promise<void> {
  if (starting !== null) await starting;
  else if (!isSelling(sale.value)) await startSale({ ...saleDefaults, isEndless: true });
}

async function start(settings: SaleSettings): Promise<void> {
  const before = sale.value;
  await send('/lab/sale/start', settings);
  if (complaint.value !== '') return;
  // The answer may arrive before the news.
  for (let waited = 0; sale.value === before && waited < NEWS_MAX; waited += NEWS_PAUSE) {
    await new Promise((resolve) => setTimeout(resolve, NEWS_PAUSE));
  }
}

/** In ms. */
const NEWS_PAUSE = 20;
const NEWS_MAX = 1_000;

export type Treatment = 'freeze' | 'thaw' | 'kill' | 'restart' | 'slow' | 'quick';

/** @param numbers of nodes, from 1 */
export async function treat(numbers: readonly number[], treatment: Treatment): Promise<void> {
  await Promise.all(numbers.map((number) => send(`/lab/nodes/${number}/${treatment}`)));
}

/** Thaws, restarts and speeds up whatever was changed. */
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
