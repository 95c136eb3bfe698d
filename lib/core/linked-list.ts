/** An item of one {@link LinkedList} at a time. */
export class Linked<Item> {
  /** @internal The list's own notes. */
  previous: Item | null = null;
  /** @internal */
  next: Item | null = null;
}

/**
 * Items one behind the other. They are linked: in an array of 100,000, leaving a place in the
 * middle would move all behind it.
 */
export class LinkedList<Item extends Linked<Item>> {
  #first: Item | null = null;
  #last: Item | null = null;

  /** The first item; null where there is none. */
  get first(): Item | null {
    return this.#first;
  }

  /** The last item; null where there is none. */
  get last(): Item | null {
    return this.#last;
  }

  /** Gives the item a place before another one, or the last place. */
  insert(item: Item, before: Item | null = null): void {
    const previous = before === null ? this.#last : before.previous;
    this.#link(previous, item);
    this.#link(item, before);
  }

  /** Takes the item out. Unlinked, because an old object would keep its neighbours in memory. */
  remove(item: Item): void {
    this.#link(item.previous, item.next);
    item.previous = item.next = null;
  }

  #link(one: Item | null, other: Item | null): void {
    if (one === null) this.#first = other;
    else one.next = other;
    if (other === null) this.#last = one;
    else other.previous = one;
  }
}
