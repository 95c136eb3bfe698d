/* eslint-disable @typescript-eslint/require-await -- the store that it stands in for is remote */
import { FencedStore, StaleTokenError } from './fenced-store.js';

/** A store in this process: for tests, and for a machine without Redis. */
export class MemoryStore extends FencedStore {
  readonly #values = new Map<string, number>();
  readonly #tokens = new Map<string, number>();

  async read(name: string, token: number): Promise<number | null> {
    this.#admit([name], token);
    return this.peek(name);
  }

  async write(values: Readonly<Record<string, number>>, token: number): Promise<void> {
    this.#admit(Object.keys(values), token);
    for (const [name, value] of Object.entries(values)) this.#values.set(name, value);
  }

  async peek(name: string): Promise<number | null> {
    return this.#values.get(name) ?? null;
  }

  async names(): Promise<string[]> {
    return [...this.#values.keys()].sort();
  }

  async seed(values: Readonly<Record<string, number>>): Promise<void> {
    for (const [name, value] of Object.entries(values)) {
      if (!this.#values.has(name)) this.#values.set(name, value);
    }
  }

  async overwrite(name: string, value: number): Promise<void> {
    this.#values.set(name, value);
  }

  async close(): Promise<void> {
    this.#values.clear();
  }

  #admit(names: readonly string[], token: number): void {
    if (names.some((name) => (this.#tokens.get(name) ?? 0) > token)) {
      throw new StaleTokenError(token);
    }
    for (const name of names) this.#tokens.set(name, token);
  }
}
