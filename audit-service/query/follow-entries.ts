import { MAX_LENGTH } from "#audit-client/stream/audit-entry.ts";
import type { Sql } from "#kit/database/postgres.ts";
import { DomainError, invalidField } from "#kit/values/errors.ts";
import { cleanText } from "../entries/clean-entry.ts";
import type { LogEntry } from "../entries/entry.ts";
import { selectProvenEntries } from "../entries/entry-store.ts";
import { selectSize } from "../log/tree-store.ts";
import { type EntrySearch, withoutProblems } from "./search-entries.ts";

/** Entries read, of which those that match are returned. */
const MAX_READ = 500;
const MAX_RETURNED = 100;

export interface Following
  extends Pick<EntrySearch, "actorUserId" | "action" | "resource" | "outcome" | "withoutActions"> {
  /** Undefined: from now on. */
  afterSequence: number | undefined;
}

export interface Followed {
  /** In the order of their sequences. */
  entries: LogEntry[];
  /** Passed to the next call. */
  nextAfter: number;
  /** Sequence of the last entry of the log. */
  size: number;
}

/**
 * Loses no entry: numbers have no gaps and become visible in their order, also those of entries that are stored late.
 * @throws {DomainError} `validation_failed` for a place beyond the log, or too many actions.
 */
export async function followEntries(sql: Sql, following: Following): Promise<Followed> {
  const fields = withoutProblems(following.withoutActions);
  if (fields.length > 0) throw new DomainError("validation_failed", undefined, { fields });
  const size = await selectSize(sql);
  const { afterSequence: after = size } = following;
  if (after > size) throw invalidField("after", "out_of_range", "is beyond the end of the log");
  const last = Math.min(after + MAX_READ, size);
  if (last === after) return { entries: [], nextAfter: after, size };
  const read = await selectProvenEntries(sql, { first: after + 1, last });
  const matching = read.map(({ entry }) => entry).filter(matcherOf(following));
  const entries = matching.slice(0, MAX_RETURNED);
  const end = matching.length > MAX_RETURNED ? entries.at(-1) : undefined;
  return { entries, nextAfter: end?.sequence ?? last, size };
}

function matcherOf({
  actorUserId,
  action,
  resource,
  outcome,
  withoutActions,
}: Following): (entry: LogEntry) => boolean {
  // Stored values were cleaned in the same way.
  const is = (wanted: string, maxLength: number, stored: string) =>
    wanted === "" || cleanText(wanted, maxLength) === stored;
  const named = cleanText(action, MAX_LENGTH.action);
  const without = new Set(withoutActions.map((name) => cleanText(name, MAX_LENGTH.action)));
  return (entry) =>
    !without.has(entry.action) &&
    is(actorUserId, MAX_LENGTH.userId, entry.actor.userId) &&
    (named.endsWith(".") ? entry.action.startsWith(named) : is(action, MAX_LENGTH.action, entry.action)) &&
    is(resource, MAX_LENGTH.resource, entry.resource) &&
    (outcome === undefined || outcome === entry.outcome);
}
