import type { Purchase } from './buyer.js';

/** How a sale went. */
export class Sale {
  constructor(
    private readonly pieces: number,
    private readonly purchases: readonly Purchase[],
    private readonly duration: number,
  ) {}

  get sold(): number {
    return this.#count('sold');
  }

  get oversold(): number {
    return Math.max(0, this.sold - this.pieces);
  }

  /** Buyers whose answer was neither: an error, or none. */
  get failed(): number {
    return this.#count('failed');
  }

  table(): string {
    const refusals = this.purchases.reduce((sum, { refusals }) => sum + refusals, 0);
    const messages = new Set(this.purchases.map(({ message }) => message));
    const rows = [
      ['pieces', `${this.pieces}`],
      ['buyers', `${this.purchases.length}`],
      ['sold', `${this.sold}`],
      ['refused', `${this.#count('sold out')} as sold out (409)`],
      ['', `${refusals} by the locks (423, 503); they came again`],
      ['failed', [this.failed, ...messages].join(' ').trimEnd()],
      ['oversold', `${this.oversold}`],
      ['per replica', this.#shares().join(' + ')],
      ['wait', `p50 ${this.#waited(0.5)} ms, p99 ${this.#waited(0.99)} ms`],
      ['duration', `${(this.duration / 1_000).toFixed(1)} s`],
    ];
    return rows.map(([label = '', value = '']) => `  ${label.padEnd(12)} ${value}`).join('\n');
  }

  #count(outcome: Purchase['outcome']): number {
    return this.purchases.filter((purchase) => purchase.outcome === outcome).length;
  }

  #shares(): number[] {
    const sold = this.purchases.filter(({ outcome }) => outcome === 'sold');
    const shops = new Set(this.purchases.map(({ url }) => url));
    return [...shops].map((shop) => sold.filter(({ url }) => url === shop).length);
  }

  /** The wait, from first request to answer, that a `share` of the buyers did not exceed. */
  #waited(share: number): string {
    const sorted = this.purchases.map(({ waited }) => waited).sort((a, b) => a - b);
    return (sorted[Math.ceil(sorted.length * share) - 1] ?? 0).toFixed(0);
  }
}
