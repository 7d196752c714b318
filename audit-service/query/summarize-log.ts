import type { Sql } from "#kit/database/postgres.ts";
import { invalidField } from "#kit/values/errors.ts";
import {
  countNextEntries,
  deleteOldLoginCounts,
  type LoginBucket,
  type OpenIntents,
  type RefusalCount,
  type Span,
  selectCountProgress,
  selectLoginBuckets,
  selectOpenIntents,
  selectRefusals,
} from "./login-count-store.ts";

const HOUR_MS = 3_600_000;
const WIDTH_MS = { hour: HOUR_MS, day: 24 * HOUR_MS };
/** Buckets. */
const MAX_SPAN = { hour: 31 * 24, day: 366 };
const KEPT_DAYS = 400;
/** Afterwards its outcome is late. */
const OPEN_AFTER_S = 60;
const MAX_OPEN_COUNTED = 10_000;
const MAX_REFUSALS = 50;
/** Reads some 50 ms. */
const COUNT_CHUNK = 5_000;

export const COUNT_INTERVAL_MS = 5_000;

export interface LogSummary extends Span {
  buckets: LoginBucket[];
  refusals: RefusalCount[];
  openIntents: OpenIntents;
  /** Sequence of the last entry that the counts include. */
  countedUpTo: number;
  /** Sequence of the last entry. */
  size: number;
}

/**
 * Widens the span to whole hours or days of UTC.
 * @throws {DomainError} `validation_failed` for a span that is empty or too long.
 */
export async function summarizeLog(sql: Sql, wanted: Span): Promise<LogSummary> {
  const span = wholeSpan(wanted);
  const [buckets, refusals, openIntents, progress] = await Promise.all([
    selectLoginBuckets(sql, span),
    selectRefusals(sql, span, MAX_REFUSALS),
    selectOpenIntents(sql, OPEN_AFTER_S, MAX_OPEN_COUNTED),
    selectCountProgress(sql),
  ]);
  return { ...span, buckets, refusals, openIntents, countedUpTo: progress.counted, size: progress.size };
}

/** Counts what was numbered since the last time. @returns whether there is more. */
export async function countLogins(sql: Sql): Promise<boolean> {
  if ((await countNextEntries(sql, COUNT_CHUNK)) === COUNT_CHUNK) return true;
  await deleteOldLoginCounts(sql, KEPT_DAYS);
  return false;
}

function wholeSpan({ interval, from, to }: Span): Span {
  const width = WIDTH_MS[interval];
  const begin = Math.floor(from.getTime() / width) * width;
  const end = Math.ceil(to.getTime() / width) * width;
  // Also for times that are not numbers.
  if (!(end > begin)) throw invalidField("to", "out_of_range", "must be after `from`");
  if (end - begin > (MAX_SPAN[interval] + 1) * width) {
    const message = `must be at most ${MAX_SPAN[interval]} ${interval}s after \`from\``;
    throw invalidField("to", "out_of_range", message);
  }
  return { interval, from: new Date(begin), to: new Date(end) };
}
