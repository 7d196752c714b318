import type { Sql } from "#kit/database/postgres.ts";
import type { TreeHead } from "./checkpoint.ts";
import { hashRange, type LeafRange, subtreesOf } from "./merkle-tree.ts";
import { selectNodes } from "./tree-store.ts";

class MissingHashes extends Error {
  override readonly name = "MissingHashes";
}

/** @throws {MissingHashes} */
export async function hashRanges(sql: Sql, ranges: readonly LeafRange[]): Promise<Buffer[]> {
  const parts = ranges.map(subtreesOf);
  const hashes = await selectNodes(sql, parts.flat());
  let next = 0;
  return parts.map((nodes) => {
    const subtrees = nodes.map(() => {
      const hash = hashes[next++];
      if (hash === undefined) throw new MissingHashes("hashes of the Merkle tree are missing");
      return hash;
    });
    return hashRange(subtrees);
  });
}

export async function readRoot(sql: Sql, size: number): Promise<Buffer> {
  const [root] = await hashRanges(sql, [{ begin: 0, end: size }]);
  return root as Buffer;
}

/** The roots of the perfect subtrees, largest first. */
export async function compactRange(sql: Sql, size: number): Promise<Buffer[]> {
  const nodes = subtreesOf({ begin: 0, end: size });
  return hashRanges(
    sql,
    nodes.map(({ level, index }) => ({ begin: index * 2 ** level, end: (index + 1) * 2 ** level })),
  );
}

/** Signing after the restore of an old backup would create a fork. Returns the problem. */
export async function verifyHistory(
  sql: Sql,
  size: number,
  heads: readonly { from: string; head: TreeHead | undefined }[],
): Promise<string | undefined> {
  try {
    if (size > 0) await readRoot(sql, size);
    return await firstContradiction(sql, size, heads);
  } catch (error) {
    if (error instanceof MissingHashes) return error.message;
    throw error;
  }
}

async function firstContradiction(
  sql: Sql,
  size: number,
  heads: readonly { from: string; head: TreeHead | undefined }[],
): Promise<string | undefined> {
  for (const { from, head } of heads) {
    if (head === undefined) continue;
    if (head.size > size) {
      return `the log has ${size} entries, but ${from} covers ${head.size}: entries are missing`;
    }
    if (!head.root.equals(await readRoot(sql, head.size))) {
      return `the root of the log's first ${head.size} entries differs from ${from}`;
    }
  }
  return undefined;
}
