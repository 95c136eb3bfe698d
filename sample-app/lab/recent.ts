/** Values by key; the oldest are dropped when there are too many. */
export class Recent<Value> {
  readonly #values = new Map<string, Value>();

  constructor(private readonly max: number) {}

  /** In order of arrival. */
  get values(): Value[] {
    return [...this.#values.values()];
  }

  /** Adds a value, or replaces that of the same key, which keeps its place. */
  set(key: string, value: Value): void {
    this.#values.set(key, value);
    if (this.#values.size <= this.max) return;
    const [oldest = key] = this.#values.keys();
    this.#values.delete(oldest);
  }

  get(key: string): Value | undefined {
    return this.#values.get(key);
  }

  /** Takes all values out. */
  drain(): Value[] {
    const { values } = this;
    this.#values.clear();
    return values;
  }
}
