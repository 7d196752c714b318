import { setTimeout as sleep } from "node:timers/promises";
import { causeOfUnavailable } from "#kit/database/database-failure.ts";
import type { Sql } from "#kit/database/postgres.ts";

const INTERVAL_MS = 1_000;

/**
 * Reports its reason for waiting when it changes. @throws the last error after `timeoutMs`, or a permanent one at once.
 */
export async function awaitDatabase(
  sql: Sql,
  options: { timeoutMs: number; intervalMs?: number; log: (reason: string) => void },
): Promise<void> {
  const deadlineMs = performance.now() + options.timeoutMs;
  let logged: string | undefined;
  for (;;) {
    try {
      await sql`select 1`;
      return;
    } catch (error) {
      const cause = causeOfUnavailable(error);
      if (cause === undefined || performance.now() >= deadlineMs) throw error;
      const reason = cause.message;
      if (reason !== logged) options.log(reason);
      logged = reason;
      await sleep(options.intervalMs ?? INTERVAL_MS);
    }
  }
}
