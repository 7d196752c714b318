import { expect, test } from "vitest";
import { loggedEntry } from "../entries/entry.fixture.ts";
import { chainHash, FIRST_CHAIN_HASH, leafData } from "./leaf.ts";
import { growTree, hashLeaf } from "./merkle-tree.ts";
import { type LogEnd, numberEntries } from "./sequencer-term.ts";

const entry = loggedEntry();
const entriesFrom = (first: number, count: number) =>
  Array.from({ length: count }, (_, index) => ({ position: BigInt(10 * (first + index)), entry }));

test("entries get the next numbers, and the end of the log advances", () => {
  const end: LogEnd = { tree: growTree(0, []), chainHash: FIRST_CHAIN_HASH };
  const { leaves, subtrees } = numberEntries(end, entriesFrom(1, 2));
  const first = hashLeaf(leafData({ ...entry, sequence: 1 }));
  const second = hashLeaf(leafData({ ...entry, sequence: 2 }));
  const chain = chainHash(FIRST_CHAIN_HASH, first);
  const { receivedAt } = entry;
  expect(leaves).toEqual([
    { sequence: 1, position: 10n, receivedAt, leafHash: first, chainHash: chain },
    { sequence: 2, position: 20n, receivedAt, leafHash: second, chainHash: chainHash(chain, second) },
  ]);
  expect(subtrees).toEqual([]);
  expect([end.tree.size, end.chainHash]).toEqual([2, chainHash(chain, second)]);
});

test("only subtrees of every eighth level are stored", () => {
  const end: LogEnd = { tree: growTree(0, []), chainHash: FIRST_CHAIN_HASH };
  const { subtrees } = numberEntries(end, entriesFrom(1, 600));
  expect(subtrees.map(({ level, index }) => [level, index])).toEqual([
    [8, 0],
    [8, 1],
  ]);
  expect(subtrees[0]?.hash).toHaveLength(32);
});

test("a tree with subtrees that do not fit its size is refused", () => {
  expect(() => growTree(1, []).append(FIRST_CHAIN_HASH)).toThrow("do not fit its size");
});
