import { hash } from "node:crypto";

/** A perfect subtree. Leaves have `level` 0. */
export interface TreeNode {
  level: number;
  index: number;
}

/** Half-open. */
export interface LeafRange {
  begin: number;
  end: number;
}

const LEAF_PREFIX = "\0";
const NODE_PREFIX = Buffer.of(1);

/** RFC 9162 §2.1.1. */
export function hashLeaf(data: string): Buffer {
  return hash("sha256", LEAF_PREFIX + data, "buffer");
}

function hashNode(left: Uint8Array, right: Uint8Array): Buffer {
  return hash("sha256", Buffer.concat([NODE_PREFIX, left, right]), "buffer");
}

/** Largest first. The range must begin at a multiple of the largest. */
export function subtreesOf({ begin, end }: LeafRange): TreeNode[] {
  const nodes: TreeNode[] = [];
  let from = begin;
  while (from < end) {
    const level = Math.floor(Math.log2(end - from));
    nodes.push({ level, index: from / 2 ** level });
    from += 2 ** level;
  }
  return nodes;
}

export function hashRange(subtrees: readonly Buffer[]): Buffer {
  return subtrees.reduceRight((right, left) => hashNode(left, right));
}

/** RFC 9162 §2.1.3.1, from the leaf up. */
export function inclusionRanges(index: number, size: number): LeafRange[] {
  const path: LeafRange[] = [];
  let [begin, end] = [0, size];
  while (end - begin > 1) {
    const middle = begin + splitOf(end - begin);
    if (index < middle) {
      path.unshift({ begin: middle, end });
      end = middle;
    } else {
      path.unshift({ begin, end: middle });
      begin = middle;
    }
  }
  return path;
}

/** RFC 9162 §2.1.4.1. `first` is from 1 to `second`. */
export function consistencyRanges(first: number, second: number): LeafRange[] {
  const path: LeafRange[] = [];
  let [begin, end] = [0, second];
  while (end !== first) {
    const middle = begin + splitOf(end - begin);
    if (first <= middle) {
      path.unshift({ begin: middle, end });
      end = middle;
    } else {
      path.unshift({ begin, end: middle });
      begin = middle;
    }
  }
  // The verifier knows the root of the old tree.
  return begin === 0 ? path : [{ begin, end }, ...path];
}

function splitOf(size: number): number {
  return 2 ** (Math.ceil(Math.log2(size)) - 1);
}

export interface GrowingTree {
  readonly size: number;
  /** @returns the completed perfect subtrees, smallest first. */
  append(leafHash: Buffer): (TreeNode & { hash: Buffer })[];
  root(): Buffer;
}

export function growTree(initialSize: number, subtrees: readonly Buffer[]): GrowingTree {
  let size = initialSize;
  const stack = [...subtrees];
  return {
    get size() {
      return size;
    },
    append(leafHash) {
      const completed: (TreeNode & { hash: Buffer })[] = [];
      let hashed = leafHash;
      size += 1;
      for (let level = 1; size % 2 ** level === 0; level += 1) {
        const left = stack.pop();
        if (left === undefined) throw new Error("the tree's subtrees do not fit its size");
        hashed = hashNode(left, hashed);
        completed.push({ level, index: size / 2 ** level - 1, hash: hashed });
      }
      stack.push(hashed);
      return completed;
    },
    root: () => hashRange(stack),
  };
}
