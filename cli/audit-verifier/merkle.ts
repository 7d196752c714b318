import { hash } from "node:crypto";

/** Bytes of a SHA-256. */
export const HASH_BYTES = 32;

const NODE_PREFIX = Buffer.of(1);

/** Hash of a leaf: SHA-256(0x00 ‖ data in UTF-8). RFC 9162 §2.1.1. */
export function leafHashOf(data: string): Buffer {
  return hash("sha256", `\0${data}`, "buffer");
}

/** SHA-256(0x01 ‖ left ‖ right). RFC 9162 §2.1.1. */
export function nodeHashOf(left: Uint8Array, right: Uint8Array): Buffer {
  return hash("sha256", Buffer.concat([NODE_PREFIX, left, right]), "buffer");
}

/** A tree that grows leaf by leaf and keeps only the roots of its perfect subtrees: one hash for each bit of its size. */
export class CompactRange {
  /** Largest first. */
  readonly #subtrees: Buffer[];
  #size: number;

  /** @param subtrees the roots of the perfect subtrees of `size` leaves, largest first. */
  constructor(size = 0, subtrees: readonly Buffer[] = []) {
    if (subtrees.length !== subtreesOf(size)) throw new RangeError(`a tree of ${size} leaves has others`);
    this.#size = size;
    this.#subtrees = [...subtrees];
  }

  /** Number of leaves. */
  get size(): number {
    return this.#size;
  }

  append(leafHash: Buffer): void {
    let subtree = leafHash;
    // Every trailing 1 of the size is a perfect subtree as large as the one that is carried up to it.
    for (let size = this.#size; size % 2 === 1; size = Math.floor(size / 2)) {
      subtree = nodeHashOf(this.#subtrees.pop() as Buffer, subtree);
    }
    this.#subtrees.push(subtree);
    this.#size += 1;
  }

  /** The root hash; of no leaves: the hash of nothing. RFC 9162 §2.1.1. */
  root(): Buffer {
    if (this.#subtrees.length === 0) return hash("sha256", "", "buffer");
    return this.#subtrees.reduceRight((right, left) => nodeHashOf(left, right));
  }
}

/** Number of perfect subtrees in a tree of a size: the ones in its binary form. */
export function subtreesOf(size: number): number {
  return [...size.toString(2)].filter((bit) => bit === "1").length;
}

export interface InclusionClaim {
  /** From 0. */
  index: number;
  size: number;
  leafHash: Uint8Array;
  /** From the leaf up. */
  proof: readonly Uint8Array[];
  root: Uint8Array;
}

/** Whether the proof shows the leaf in the tree. RFC 9162 §2.1.3.2. */
export function isIncluded({ index, size, leafHash, proof, root }: InclusionClaim): boolean {
  if (!Number.isSafeInteger(index) || !Number.isSafeInteger(size)) return false;
  if (index < 0 || index >= size || ![leafHash, root, ...proof].every(isHash)) return false;
  let [node, last] = [index, size - 1];
  let found = leafHash;
  for (const sibling of proof) {
    if (last === 0) return false;
    if (node % 2 === 1 || node === last) {
      found = nodeHashOf(sibling, found);
      [node, last] = climbPastLeft(node, last);
    } else {
      found = nodeHashOf(found, sibling);
    }
    [node, last] = [half(node), half(last)];
  }
  return last === 0 && Buffer.compare(found, root) === 0;
}

export interface ConsistencyClaim {
  firstSize: number;
  firstRoot: Uint8Array;
  secondSize: number;
  secondRoot: Uint8Array;
  proof: readonly Uint8Array[];
}

/** Whether the proof shows that the second tree begins with the first. RFC 9162 §2.1.4.2. */
export function isConsistent(claim: ConsistencyClaim): boolean {
  const { firstSize, firstRoot, secondSize, secondRoot, proof } = claim;
  if (!Number.isSafeInteger(firstSize) || !Number.isSafeInteger(secondSize)) return false;
  if (firstSize < 1 || firstSize > secondSize) return false;
  if (firstSize === secondSize) return proof.length === 0 && Buffer.compare(firstRoot, secondRoot) === 0;
  if (![firstRoot, secondRoot, ...proof].every(isHash)) return false;
  const isPerfect = subtreesOf(firstSize) === 1;
  const [start, ...path] = isPerfect ? [firstRoot, ...proof] : proof;
  if (start === undefined || (isPerfect && proof.length === 0)) return false;
  let [node, last] = [firstSize - 1, secondSize - 1];
  while (node % 2 === 1) [node, last] = [half(node), half(last)];
  let [first, second] = [start, start];
  for (const sibling of path) {
    if (last === 0) return false;
    if (node % 2 === 1 || node === last) {
      first = nodeHashOf(sibling, first);
      second = nodeHashOf(sibling, second);
      [node, last] = climbPastLeft(node, last);
    } else {
      second = nodeHashOf(second, sibling);
    }
    [node, last] = [half(node), half(last)];
  }
  return last === 0 && Buffer.compare(first, firstRoot) === 0 && Buffer.compare(second, secondRoot) === 0;
}

/** Up from the right edge, past the levels at which the node has no sibling. */
function climbPastLeft(node: number, last: number): [number, number] {
  let [here, edge] = [node, last];
  while (here !== 0 && here % 2 === 0) [here, edge] = [half(here), half(edge)];
  return [here, edge];
}

function isHash(value: Uint8Array): boolean {
  return value.length === HASH_BYTES;
}

/** Bit operators would cut a size at 32 bits. */
function half(value: number): number {
  return Math.floor(value / 2);
}
