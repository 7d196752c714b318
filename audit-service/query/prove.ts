import type { Sql } from "#kit/database/postgres.ts";
import { DomainError, invalidField } from "#kit/values/errors.ts";
import { consistencyRanges, inclusionRanges } from "../log/merkle-tree.ts";
import { hashRanges } from "../log/tree-proofs.ts";
import { selectLeaf, selectSize } from "../log/tree-store.ts";

/** RFC 9162 §2.1.3. @throws {DomainError} `validation_failed`, or `not_found` beyond the log. */
export async function proveInclusion(
  sql: Sql,
  sequence: number,
  treeSize: number,
): Promise<{ proof: Buffer[]; leafHash: Buffer }> {
  if (sequence < 1) throw invalidField("sequence", "out_of_range", "must be at least 1");
  if (treeSize < sequence) throw invalidField("treeSize", "out_of_range", "must be at least the sequence");
  const leaf = await selectLeaf(sql, sequence);
  if (leaf === undefined || treeSize > (await selectSize(sql))) throw new DomainError("not_found");
  return { proof: await hashRanges(sql, inclusionRanges(sequence - 1, treeSize)), leafHash: leaf.leafHash };
}

/** RFC 9162 §2.1.4. @throws {DomainError} as `proveInclusion`. */
export async function proveConsistency(sql: Sql, firstSize: number, secondSize: number): Promise<Buffer[]> {
  if (firstSize < 1) throw invalidField("firstSize", "out_of_range", "must be at least 1");
  if (secondSize < firstSize)
    throw invalidField("secondSize", "out_of_range", "must be at least the first size");
  if (secondSize > (await selectSize(sql))) throw new DomainError("not_found");
  return hashRanges(sql, consistencyRanges(firstSize, secondSize));
}
