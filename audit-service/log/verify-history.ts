import type { Sql } from "#kit/database/postgres.ts";
import type { TreeHead } from "./checkpoint.ts";
import { MissingHashes, readRoot } from "./tree-proofs.ts";

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
