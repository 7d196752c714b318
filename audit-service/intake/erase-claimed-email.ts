import type { Sql } from "#kit/database/postgres.ts";
import { withinDeadline } from "#kit/values/call-deadline.ts";
import { deleteClaimedEmail } from "../entries/entry-store.ts";
import type { Logs } from "../logs/logs.ts";

/** Long enough for an index scan, so that a log that does not answer leaves time for the record. */
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
  const erase = ({ intake }: ErasableLog) =>
    withinDeadline(deleteClaimedEmail(intake, address), UNANSWERED_AFTER_MS);
  const erasure: Erasure = { erasedEntries: await erase(first), unanswered: [] };
  const results = await Promise.allSettled(others.map(erase));
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
