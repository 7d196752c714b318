import { hash } from "node:crypto";

export const HASH_BYTES = 32;

const NODE_PREFIX = Buffer.of(1);

/** RFC 9162 §2.1.1. */
export function leafHashOf(data: string): Buffer {
  return hash("sha256", `\0${data}`, "buffer");
}

function nodeHashOf(left: Uint8Array, right: Uint8Array): Buffer {
  return hash("sha256", Buffer.concat([NODE_PREFIX, left, right]), "buffer");
}

/** An append-only tree that keeps only the roots of its perfect subtrees. */
export class CompactRange {
  readonly #subtrees: Buffer[];
  #size: number;

  /** @param subtrees Largest first. */
  constructor(size = 0, subtrees: readonly Buffer[] = []) {
    if (subtrees.length !== subtreesOf(size))
      throw new RangeError(`the number of subtrees does not fit a tree of ${size} leaves`);
    this.#size = size;
    this.#subtrees = [...subtrees];
  }

  get size(): number {
    return this.#size;
  }

  append(leafHash: Buffer): void {
    let subtree = leafHash;
    // Each trailing 1 bit is a perfect subtree of equal size.
    for (let size = this.#size; size % 2 === 1; size = Math.floor(size / 2)) {
      subtree = nodeHashOf(this.#subtrees.pop() as Buffer, subtree);
    }
    this.#subtrees.push(subtree);
    this.#size += 1;
  }

  root(): Buffer {
    if (this.#subtrees.length === 0) return hash("sha256", "", "buffer");
    return this.#subtrees.reduceRight((right, left) => nodeHashOf(left, right));
  }
}

export function subtreesOf(size: number): number {
  return [...size.toString(2)].filter((bit) => bit === "1").length;
}
