/** How many entries, at least, are added before all move. */
const ROOM_MIN = 256;

/**
 * A long-lived map of short-lived entries, in the order in which they were set.
 *
 * V8 copies a growing Map, or one with many deleted entries, into a new table, and the abandoned
 * table points to the new one. Once one such table has become an old object, each table after it
 * is kept until the next full collection, with all that was in it when it was abandoned: half of
 * everything that locks are made of. So the entries move to a new Map now and then.
 */
export class TransientMap<Key, Value> {
  #map = new Map<Key, Value>();
  /** How many more are added before all move: as many as would move. */
  #room = ROOM_MIN;

  get size(): number {
    return this.#map.size;
  }

  get(key: Key): Value | undefined {
    return this.#map.get(key);
  }

  has(key: Key): boolean {
    return this.#map.has(key);
  }

  set(key: Key, value: Value): void {
    if (this.#room === 0) this.#move();
    this.#room -= 1;
    this.#map.set(key, value);
  }

  delete(key: Key): void {
    this.#map.delete(key);
  }

  /** Entries may be deleted during the iteration. To set some, iterate over a copy. */
  keys(): IterableIterator<Key> {
    return this.#map.keys();
  }

  /** As {@link keys}. */
  values(): IterableIterator<Value> {
    return this.#map.values();
  }

  // By hand: the constructor would make a pair of each entry.
  #move(): void {
    const map = new Map<Key, Value>();
    this.#map.forEach((value, key) => map.set(key, value));
    this.#map = map;
    this.#room = Math.max(ROOM_MIN, map.size);
  }
}
