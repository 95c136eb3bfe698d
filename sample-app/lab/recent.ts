/** Values by key, of which the oldest go when there are too many. */
export class Recent<Key, Value> {
  readonly #values = new Map<Key, Value>();

  constructor(private readonly max: number) {}

  /** In the order in which they came. */
  get values(): Value[] {
    return [...this.#values.values()];
  }

  /** Adds a value, or replaces the one of that key in its place. */
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

  /** The values; none is left here. */
  drain(): Value[] {
    const { values } = this;
    this.#values.clear();
    return values;
  }
}
