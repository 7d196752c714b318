import type { StoredEntry } from "../entries/entry-store.ts";
import { chainHash, leafData } from "./leaf.ts";
import { type GrowingTree, hashLeaf, type TreeNode } from "./merkle-tree.ts";
import type { Leaf } from "./sequencer-store.ts";
import { KEPT_LEVELS } from "./tree-store.ts";

export interface LogEnd {
  tree: GrowingTree;
  chainHash: Buffer;
}

export function numberEntries(
  end: LogEnd,
  entries: readonly StoredEntry[],
): { leaves: Leaf[]; subtrees: (TreeNode & { hash: Buffer })[] } {
  const leaves: Leaf[] = [];
  const subtrees: (TreeNode & { hash: Buffer })[] = [];
  for (const { position, entry } of entries) {
    const sequence = end.tree.size + 1;
    const leafHash = hashLeaf(leafData({ ...entry, sequence }));
    end.chainHash = chainHash(end.chainHash, leafHash);
    for (const node of end.tree.append(leafHash)) {
      if (node.level % KEPT_LEVELS === 0) subtrees.push(node);
    }
    leaves.push({ sequence, position, receivedAt: entry.receivedAt, leafHash, chainHash: end.chainHash });
  }
  return { leaves, subtrees };
}
