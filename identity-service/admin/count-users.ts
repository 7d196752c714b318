import { setTimeout as sleep } from "node:timers/promises";
import { withCalls } from "#kit/values/call-deadline.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { AdminDeps } from "./authorize.ts";
import { selectUserFigures, type UserFigures } from "./user-admin-store.ts";

const FRESH_MS = 60_000;
/** Counting takes at most a twentieth of the time, however many users there are. */
const REST_OF_COUNTING = 19;
/** Shorter than a call may take. Whoever asks then gets the figures of before. */
const WAIT_MS = 400;

type Counted = UserFigures & { countedAt: Date };

/** What one process has counted. Empty at its start. */
export interface KeptFigures {
  latest?: Counted;
  counting?: Promise<void> | undefined;
  freshUntilMs?: number;
}

/**
 * Counts once for all who ask, and keeps the figures for a minute or longer. Older ones are given, with their time, while
 * counting takes long or fails. @throws {DomainError} `service_unavailable` while there are none.
 */
export async function countUsers(
  deps: Pick<AdminDeps, "sql" | "now">,
  kept: KeptFigures,
  waitMs = WAIT_MS,
): Promise<Counted> {
  if (kept.latest === undefined || deps.now().getTime() >= (kept.freshUntilMs ?? 0)) {
    // Not one caller's work: others go on waiting when that one has gone.
    kept.counting ??= withCalls([], () => count(deps, kept));
    const outcome = Promise.race([kept.counting, sleep(waitMs, undefined, { ref: false })]);
    await (kept.latest === undefined ? outcome : outcome.catch(() => undefined));
  }
  if (kept.latest === undefined)
    throw new DomainError("service_unavailable", undefined, { retryAfterMs: 1_000 });
  return kept.latest;
}

async function count({ sql, now }: Pick<AdminDeps, "sql" | "now">, kept: KeptFigures): Promise<void> {
  const startedMs = now().getTime();
  try {
    const figures = await selectUserFigures(sql, now());
    kept.latest = { ...figures, countedAt: now() };
  } finally {
    const endedMs = now().getTime();
    kept.freshUntilMs = endedMs + Math.max(FRESH_MS, REST_OF_COUNTING * (endedMs - startedMs));
    kept.counting = undefined;
  }
}
