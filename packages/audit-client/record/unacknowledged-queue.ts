export interface Numbered<T> {
  sequence: number;
  item: T;
}

/** Items numbered from 1 without gaps. */
export class UnacknowledgedQueue<T> {
  readonly #items = new Map<number, T>();
  #next = 1;

  get length(): number {
    return this.#items.size;
  }

  /** Equals `next` without items. */
  get first(): number {
    return this.#next - this.#items.size;
  }

  get next(): number {
    return this.#next;
  }

  push(item: T): void {
    this.#items.set(this.#next, item);
    this.#next += 1;
  }

  from(sequence: number, limit: number): Numbered<T>[] {
    const found: Numbered<T>[] = [];
    for (let at = sequence; found.length < limit; at += 1) {
      const item = this.#items.get(at);
      if (item === undefined) break;
      found.push({ sequence: at, item });
    }
    return found;
  }

  acknowledge(sequence: number): T[] {
    const acknowledged = this.from(this.first, sequence - this.first + 1);
    for (const { sequence: at } of acknowledged) this.#items.delete(at);
    return acknowledged.map(({ item }) => item);
  }
}
