/** An entry's number and what is kept for it. */
export interface Numbered<T> {
  sequence: number;
  item: T;
}

/** Items numbered from 1 without gaps, in order, each until it is acknowledged. */
export class UnacknowledgedQueue<T> {
  readonly #items = new Map<number, T>();
  #next = 1;

  get length(): number {
    return this.#items.size;
  }

  /** The number of the oldest item; of the next one to come if there is none. */
  get first(): number {
    return this.#next - this.#items.size;
  }

  /** The number that the next item gets. */
  get next(): number {
    return this.#next;
  }

  push(item: T): void {
    this.#items.set(this.#next, item);
    this.#next += 1;
  }

  /** The items from this number on, at most `limit`. */
  from(sequence: number, limit: number): Numbered<T>[] {
    const found: Numbered<T>[] = [];
    for (let at = sequence; found.length < limit; at += 1) {
      const item = this.#items.get(at);
      if (item === undefined) break;
      found.push({ sequence: at, item });
    }
    return found;
  }

  /** Takes out everything up to and including this number. */
  acknowledge(sequence: number): T[] {
    const acknowledged = this.from(this.first, sequence - this.first + 1);
    for (const { sequence: at } of acknowledged) this.#items.delete(at);
    return acknowledged.map(({ item }) => item);
  }
}
