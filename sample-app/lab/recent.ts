/** Values by key; the oldest are dropped when there are too many. */
export class Recent<Key, Value> {
  readonly #values = new Map<Key, Value>();

  constructor(private readonly max: number) {}

  /** In order of arrival. */
  get values(): Value[] {
    return [...this.#values.values()];
  }

  /** Adds a value, or replaces that of the same key, which keeps its place. */
  set(key: Key, value: Value): void {
    this.#values.set(key, value);
    if (this.#values.size <= this.max) return;
    for (const oldest of this.#values.keys()) {
      this.#values.delete(oldest);
      return;
    }
  }

  get(key: Key): Value | undefined {
    return this.#values.get(key);
  }

  /** Takes all values out. */
  drain(): Value[] {
    const { values } = this;
    this.#values.clear();
    return values;
  }
}
