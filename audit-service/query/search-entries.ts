import { MAX_LENGTH } from "#audit-client/stream/audit-entry.ts";
import { DomainError, type FieldProblem } from "#kit/values/errors.ts";
import { cleanText } from "../entries/clean-entry.ts";
import type { PlacedEntry } from "../entries/entry.ts";
import { type EntryFilter, type StoredEntry, selectEntries } from "../entries/entry-store.ts";
import { decodeCursor, encodeCursor, type PageEnd } from "../entries/search-cursor.ts";
import type { Logs, ReadableLog } from "../logs/logs.ts";

const MAX_LIMIT = 100;
const MAX_WITHOUT = 100;
const MAX_TIME_MS = Date.UTC(10_000, 0, 1) - 1;
const MAX_POSITION = 2n ** 63n - 1n;

/** Empty text matches everything. */
export interface EntrySearch {
  actorUserId: string;
  /** A name; with a dot at its end, the beginning of names. */
  action: string;
  resource: string;
  requestId: string;
  outcome: "success" | "failure" | "unknown" | undefined;
  /** Actions of which nothing is wanted; at most 100. */
  withoutActions: readonly string[];
  /** Inclusive, by the producer's clock. */
  from: Date | undefined;
  /** Exclusive. */
  to: Date | undefined;
  /** Empty for the first page. */
  cursor: string;
  limit: number;
}

export interface EntryPage {
  entries: PlacedEntry[];
  /** Empty at the end. */
  nextCursor: string;
}

interface Deps {
  logs: Logs<ReadableLog>;
  cursorKey: Buffer;
}

type FoundEntry = StoredEntry & { log: number };

/**
 * Searches all logs together, by the producers' clocks. Entries stored before the first page appear exactly once.
 * @throws {DomainError} `validation_failed` for an invalid limit, time or cursor; `service_unavailable` if a log does not answer.
 */
export async function searchEntries({ logs, cursorKey }: Deps, search: EntrySearch): Promise<EntryPage> {
  const after = search.cursor === "" ? undefined : decodeCursor(cursorKey, search.cursor);
  const filter = filterOf(search, after);
  const ofLogs = logs.map(async ({ number, sql }): Promise<FoundEntry[]> => {
    const own = { ...filter, after: after && endIn(number, after) };
    const found = await selectEntries(sql, own, search.limit + 1);
    return found.map((stored) => ({ ...stored, log: number }));
  });
  const found = (await Promise.all(ofLogs)).flat().sort(newestFirst);
  const page = found.slice(0, search.limit);
  const last = page.at(-1);
  return {
    entries: page.map(({ entry, log }) => ({ ...entry, log })),
    nextCursor: found.length > page.length && last !== undefined ? encodeCursor(cursorKey, endOf(last)) : "",
  };
}

function endOf({ entry, log, position }: FoundEntry): PageEnd {
  return { occurredAt: entry.occurredAt, log, position };
}

/** Where the page ended for a log: of its time, entries of earlier logs were shown, and of later ones none. */
function endIn(log: number, { occurredAt, ...end }: PageEnd): Omit<PageEnd, "log"> {
  if (log === end.log) return { occurredAt, position: end.position };
  return { occurredAt, position: log < end.log ? 0n : MAX_POSITION };
}

function newestFirst(a: FoundEntry, b: FoundEntry): number {
  return (
    b.entry.occurredAt.getTime() - a.entry.occurredAt.getTime() ||
    a.log - b.log ||
    (b.position > a.position ? 1 : -1)
  );
}

function filterOf(search: EntrySearch, after: PageEnd | undefined): EntryFilter {
  const fields: FieldProblem[] = [];
  const check = (field: string, isRight: boolean, code: string, message: string) => {
    if (!isRight) fields.push({ field, code, message });
  };
  const { limit, from, to } = search;
  check("limit", limit >= 1 && limit <= MAX_LIMIT, "out_of_range", `must be 1 to ${MAX_LIMIT}`);
  check("from", from === undefined || isTime(from), "out_of_range", "must be between 1970 and 9999");
  check("to", to === undefined || isTime(to), "out_of_range", "must be between 1970 and 9999");
  check("cursor", search.cursor === "" || after !== undefined, "invalid_format", "is invalid");
  fields.push(...withoutProblems(search.withoutActions));
  if (fields.length > 0) throw new DomainError("validation_failed", undefined, { fields });
  return {
    actorUserId: recorded(search.actorUserId, MAX_LENGTH.userId),
    action: recorded(search.action, MAX_LENGTH.action),
    resource: recorded(search.resource, MAX_LENGTH.resource),
    requestId: recorded(search.requestId, MAX_LENGTH.requestId),
    outcome: search.outcome,
    withoutActions: search.withoutActions.map((action) => cleanText(action, MAX_LENGTH.action)),
    from,
    to,
  };
}

export function withoutProblems({ length }: EntrySearch["withoutActions"]): FieldProblem[] {
  if (length <= MAX_WITHOUT) return [];
  return [{ field: "withoutActions", code: "out_of_range", message: `must be at most ${MAX_WITHOUT}` }];
}

/** Stored values were cleaned in the same way. */
function recorded(text: string, maxLength: number): string | undefined {
  return text === "" ? undefined : cleanText(text, maxLength);
}

function isTime(time: Date): boolean {
  const ms = time.getTime();
  return ms >= 0 && ms <= MAX_TIME_MS;
}
