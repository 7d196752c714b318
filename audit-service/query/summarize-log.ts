import type { Sql } from "#kit/database/postgres.ts";
import { invalidField } from "#kit/values/errors.ts";
import type { ReadableLog } from "../logs/logs.ts";
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
  /** Sequence of the last entry that the counts include. Of several logs the sum. */
  countedUpTo: number;
  /** Sequence of the last entry. Of several logs the sum. */
  size: number;
}

/**
 * Widens the span to whole hours or days of UTC.
 * @throws {DomainError} `validation_failed` for a span that is empty or too long.
 */
export async function summarizeLogs(
  logs: readonly Pick<ReadableLog, "sql">[],
  wanted: Span,
): Promise<LogSummary> {
  const span = wholeSpan(wanted);
  const summaries = await Promise.all(logs.map(({ sql }) => summarizeLog(sql, span)));
  const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);
  const buckets = Map.groupBy(
    summaries.flatMap((each) => each.buckets),
    ({ start }) => start.getTime(),
  );
  const refusals = Map.groupBy(
    summaries.flatMap((each) => each.refusals),
    ({ reason }) => reason,
  );
  const open = summaries.map(({ openIntents }) => openIntents);
  const oldest = open.flatMap((each) => each.oldest ?? []).sort((a, b) => a.getTime() - b.getTime());
  return {
    ...span,
    buckets: [...buckets]
      .sort(([a], [b]) => a - b)
      .map(([start, ofLogs]) => ({
        start: new Date(start),
        logins: sum(ofLogs.map(({ logins }) => logins)),
        failures: sum(ofLogs.map(({ failures }) => failures)),
      })),
    refusals: [...refusals]
      .map(([reason, ofLogs]) => ({ reason, count: sum(ofLogs.map(({ count }) => count)) }))
      .sort((a, b) => b.count - a.count || (a.reason < b.reason ? -1 : 1))
      .slice(0, MAX_REFUSALS),
    openIntents: {
      count: Math.min(MAX_OPEN_COUNTED, sum(open.map(({ count }) => count))),
      oldest: oldest[0],
    },
    countedUpTo: sum(summaries.map(({ progress }) => progress.counted)),
    size: sum(summaries.map(({ progress }) => progress.size)),
  };
}

async function summarizeLog(sql: Sql, span: Span) {
  // One after the other: a read holds one connection.
  const buckets = await selectLoginBuckets(sql, span);
  const refusals = await selectRefusals(sql, span, MAX_REFUSALS);
  const openIntents = await selectOpenIntents(sql, OPEN_AFTER_S, MAX_OPEN_COUNTED);
  const progress = await selectCountProgress(sql);
  return { buckets, refusals, openIntents, progress };
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
