import { MAX_LENGTH } from "#audit-client/stream/audit-entry.ts";
import { DomainError, type FieldProblem } from "#kit/values/errors.ts";
import { cleanText } from "../entries/clean-entry.ts";
import type { LogEntry } from "../entries/entry.ts";
import type { EntryFilter, StoredEntry } from "../entries/entry-store.ts";
import { decodeCursor, encodeCursor } from "../entries/search-cursor.ts";

const MAX_LIMIT = 100;
const MAX_WITHOUT = 100;
const MAX_TIME_MS = Date.UTC(10_000, 0, 1) - 1;

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
  entries: LogEntry[];
  /** Empty at the end. */
  nextCursor: string;
}

interface Deps {
  selectEntries: (filter: EntryFilter, limit: number) => Promise<StoredEntry[]>;
  cursorKey: Buffer;
}

/**
 * Entries stored before the first page appear exactly once.
 * @throws {DomainError} `validation_failed` for an invalid limit, time or cursor.
 */
export async function searchEntries(deps: Deps, search: EntrySearch): Promise<EntryPage> {
  const filter = filterOf(deps, search);
  const found = await deps.selectEntries(filter, search.limit + 1);
  const page = found.slice(0, search.limit);
  const last = page.at(-1);
  return {
    entries: page.map(({ entry }) => entry),
    nextCursor:
      found.length > page.length && last !== undefined ? encodeCursor(deps.cursorKey, endOf(last)) : "",
  };
}

function endOf({ position, entry }: StoredEntry) {
  return { occurredAt: entry.occurredAt, position };
}

function filterOf({ cursorKey }: Deps, search: EntrySearch): EntryFilter {
  const after = search.cursor === "" ? undefined : decodeCursor(cursorKey, search.cursor);
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
    after,
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
