import { readDatabaseClock, type Sql } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { CheckpointSigner } from "./checkpoint.ts";
import { selectLastCheckpoint } from "./checkpoint-store.ts";
import {
  deleteClaims,
  deleteForgottenIntents,
  detachPartition,
  insertRemoval,
  insertRemovalCleanup,
  isCleanCut,
  monthOf,
  selectCut,
  selectPartitions,
  selectRemovals,
  selectUncleanRemovals,
  startOfMonth,
} from "./retention-store.ts";
import { readRoot } from "./tree-proofs.ts";

interface Deps {
  sql: Sql;
  signer: CheckpointSigner;
  retentionMonths: number;
  now: () => Date;
  logger: Logger;
}

const CLAIMS_AT_ONCE = 5_000;

/** Leaf hashes stay, so that remaining entries and old checkpoints can be proven. */
export async function removeOldPartitions(deps: Deps): Promise<void> {
  const { sql, retentionMonths, logger } = deps;
  if (retentionMonths === 0) return;
  // The clock that the months are of. A process's own may be ahead, and what is removed does not come back.
  const firstKept = monthOf(await readDatabaseClock(sql)) - retentionMonths;
  for (const name of await selectPartitions(sql)) {
    const month = monthNamed(name);
    if (month >= firstKept) return;
    const ending = startOfMonth(month + 1);
    const removals = await selectRemovals(sql);
    if (!removals.some(({ partitionName }) => partitionName === name)) {
      const outcome = await recordRemoval(deps, name, ending, (removals.at(-1)?.lastSequence ?? 0) + 1);
      if (outcome === "empty") continue;
      if (outcome === "not yet") return;
    }
    await detachPartition(sql, name);
    logger.warn(
      { table: name },
      "retention has removed a month from the audit log; archive and drop its table",
    );
  }
}

export async function cleanUpRemovals({
  sql,
  isStopped,
}: {
  sql: Sql;
  isStopped: () => boolean;
}): Promise<void> {
  for (const removal of await selectUncleanRemovals(sql)) {
    const before = startOfMonth(monthNamed(removal.partitionName) + 1);
    for (let after: bigint | undefined = 0n; after !== undefined; ) {
      if (isStopped()) return;
      after = await deleteClaims(sql, { before, after, limit: CLAIMS_AT_ONCE });
    }
    while ((await deleteForgottenIntents(sql, before, CLAIMS_AT_ONCE)) === CLAIMS_AT_ONCE) {
      if (isStopped()) return;
    }
    await insertRemovalCleanup(sql, removal);
  }
}

async function recordRemoval(
  { sql, signer, now, logger }: Deps,
  partitionName: string,
  ending: Date,
  first: number,
): Promise<"recorded" | "empty" | "not yet"> {
  const checkpoint = await selectLastCheckpoint(sql, signer.origin);
  if (checkpoint === undefined) return "not yet";
  const { size } = checkpoint;
  const last = Math.min((await selectCut(sql, ending)) ?? size, size);
  if (last < first) return "empty";
  // Entries of this month may still get numbers.
  if (last === size) return "not yet";
  if (!(await isCleanCut(sql, { last, ending, floorPosition: checkpoint.floorPosition }))) {
    logger.error(
      { table: partitionName },
      "the numbers of a month of the audit log are not one range; the month is not removed",
    );
    return "not yet";
  }
  const note = signer.removal({ first, last, root: await readRoot(sql, last) }, now());
  await insertRemoval(sql, { firstSequence: first, lastSequence: last, partitionName, note });
  return "recorded";
}

/** @param name Such as `log_entries_2026_11`. */
function monthNamed(name: string): number {
  return monthOf(new Date(Date.UTC(Number(name.slice(12, 16)), Number(name.slice(17, 19)) - 1)));
}
