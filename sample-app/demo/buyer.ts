import { setTimeout as sleep } from 'node:timers/promises';

/** The outcome of one buyer. */
export interface Purchase {
  /** The replica that was asked. */
  readonly url: string;
  readonly outcome: 'sold' | 'sold out' | 'failed';
  /** From the first request to the final answer, in ms. */
  readonly waited: number;
  /** How many answers told it to retry: 423 (others hold the lock) or 503 (no quorum). */
  readonly refusals: number;
  /** Why it failed. */
  readonly message: string;
}

/** Buys one piece. Retries when told to, as a good client does. */
export async function buy(url: string, sku: string): Promise<Purchase> {
  const startedAt = performance.now();
  for (let refusals = 0; ; refusals += 1) {
    const { status, retryAfter, text } = await reserve(url, sku);
    const waited = performance.now() - startedAt;
    if (status === 201) return { url, outcome: 'sold', waited, refusals, message: '' };
    if (status === 409) return { url, outcome: 'sold out', waited, refusals, message: '' };
    const mayComeAgain = (status === 423 || status === 503) && waited < PATIENCE;
    if (!mayComeAgain) {
      return { url, outcome: 'failed', waited, refusals, message: `${status} ${text}` };
    }
    await sleep(retryAfter);
  }
}

async function reserve(
  url: string,
  sku: string,
): Promise<{ status: number; retryAfter: number; text: string }> {
  try {
    const response = await fetch(`${url}/inventory/${sku}/reserve`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ quantity: 1 }),
    });
    const retryAfter = Number(response.headers.get('retry-after') ?? 1) * 1_000;
    return { status: response.status, retryAfter, text: await response.text() };
  } catch (error) {
    // Not retried: nobody knows whether the piece was sold.
    return { status: 0, retryAfter: 0, text: String(error) };
  }
}

const PATIENCE = 60_000;
