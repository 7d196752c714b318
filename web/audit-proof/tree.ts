import { type Bytes, bytesOf, HASH_BYTES, hashOf, isSame, Unproven } from "./bytes.ts";

const MAX_PROOF = 64;
const half = (value: number) => Math.floor(value / 2);
const isPowerOfTwo = (value: number): boolean => value === 1 || (value % 2 === 0 && isPowerOfTwo(value / 2));

/** RFC 9162 §2.1.3.2. Numbers beyond 32 bits need arithmetic in place of shifts. */
export async function rootOf(
  index: number,
  size: number,
  leafHash: Bytes,
  proof: readonly string[],
): Promise<Bytes> {
  if (index >= size || proof.length > MAX_PROOF) throw new Unproven("root");
  let [at, last, node] = [index, size - 1, leafHash];
  for (const encoded of proof) {
    const sibling = bytesOf(encoded, HASH_BYTES);
    if (last === 0) throw new Unproven("root");
    if (at % 2 === 1 || at === last) {
      node = await hashOf(Uint8Array.of(1), sibling, node);
      while (at % 2 === 0 && at !== 0) [at, last] = [half(at), half(last)];
    } else {
      node = await hashOf(Uint8Array.of(1), node, sibling);
    }
    [at, last] = [half(at), half(last)];
  }
  if (last !== 0) throw new Unproven("root");
  return node;
}

interface Tree {
  size: number;
  /** Base64. */
  root: string;
}

/** Whether the later tree begins with the earlier one. RFC 9162 §2.1.4.2. @param proof base64. @throws {Unproven} `form`. */
export async function hasOnlyGrown(earlier: Tree, later: Tree, proof: readonly string[]): Promise<boolean> {
  if (later.size < earlier.size) return false;
  if (later.size === earlier.size) return proof.length === 0 && later.root === earlier.root;
  const path = proof.map((hash) => bytesOf(hash, HASH_BYTES));
  // A whole tree is its own first hash.
  if (isPowerOfTwo(earlier.size)) path.unshift(bytesOf(earlier.root, HASH_BYTES));
  const [first, ...siblings] = path;
  if (first === undefined || path.length > MAX_PROOF) return false;
  let [at, last] = [earlier.size - 1, later.size - 1];
  while (at % 2 === 1) [at, last] = [half(at), half(last)];
  let [before, after] = [first, first];
  for (const sibling of siblings) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      before = await hashOf(Uint8Array.of(1), sibling, before);
      after = await hashOf(Uint8Array.of(1), sibling, after);
      while (at % 2 === 0 && at !== 0) [at, last] = [half(at), half(last)];
    } else {
      after = await hashOf(Uint8Array.of(1), after, sibling);
    }
    [at, last] = [half(at), half(last)];
  }
  const isFirst = isSame(before, bytesOf(earlier.root, HASH_BYTES));
  return last === 0 && isFirst && isSame(after, bytesOf(later.root, HASH_BYTES));
}
