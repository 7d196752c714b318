import type { Sql } from "#kit/database/postgres.ts";
import { withinDeadline } from "#kit/values/call-deadline.ts";
import { deleteClaimedEmail } from "../entries/entry-store.ts";
import type { Logs } from "../logs/logs.ts";

/** What every log but log 0 has to answer in: long enough for an index scan, and short enough to leave time for the record. */
const UNANSWERED_AFTER_MS = 1_000;

export interface ErasableLog {
  number: number;
  intake: Sql;
}

interface Erasure {
  /** In the logs that answered. */
  erasedEntries: number;
  /** Numbers of logs that failed, or may still erase. */
  unanswered: number[];
  /** Why one of them failed. */
  failure?: unknown;
}

/**
 * Log 0 takes the record of an erasure, so nothing is erased from other logs before log 0 has answered.
 * @throws {DomainError} `service_unavailable` if log 0 does not answer.
 */
export async function eraseClaimedEmail(logs: Logs<ErasableLog>, address: string): Promise<Erasure> {
  const [first, ...others] = logs;
  // As long as it takes: what was erased after a deadline would be in no record.
  const erasure: Erasure = { erasedEntries: await deleteClaimedEmail(first.intake, address), unanswered: [] };
  const results = await Promise.allSettled(
    others.map(({ intake }) => withinDeadline(deleteClaimedEmail(intake, address), UNANSWERED_AFTER_MS)),
  );
  for (const [index, { number }] of others.entries()) {
    const result = results[index];
    if (result?.status === "fulfilled") erasure.erasedEntries += result.value;
    else {
      erasure.unanswered.push(number);
      erasure.failure = result?.reason;
    }
  }
  return erasure;
}
