import { MAX_LENGTH } from "#audit-client/stream/audit-entry.ts";
import { MAX_ENTRY_BYTES } from "#audit-client/stream/to-proto.ts";
import { callTimeLeftMs, withinDeadline } from "#kit/values/call-deadline.ts";
import { DomainError, invalidField } from "#kit/values/errors.ts";
import { cleanText } from "../entries/clean-entry.ts";
import type { LogEntry, PlacedEntry } from "../entries/entry.ts";
import { selectProvenEntries } from "../entries/entry-store.ts";
import { selectSize } from "../log/tree-store.ts";
import type { LogPlace, Logs, ReadableLog } from "../logs/logs.ts";
import { type EntrySearch, withoutProblems } from "./search-entries.ts";

/** Entries read, of which those that match are returned. */
const MAX_READ = 500;
const DEFAULT_LIMIT = 100;
/** Of one answer, however long they are: clients take 4 MiB. The logs that are read share them. */
const MAX_ANSWER_ENTRIES = Math.floor((3 * 1024 * 1024) / MAX_ENTRY_BYTES);
/** Those that answer wait no longer for one that does not. */
const AWAY_AFTER_MS = 1_000;
/** For a log that was away in the last call. It is asked by one call at a time, until it has answered within the time above. */
const STILL_AWAY_AFTER_MS = 100;

type Filter = Pick<EntrySearch, "actorUserId" | "action" | "resource" | "outcome" | "withoutActions">;

export interface Following extends Filter {
  /** Log 0 alone is followed from here on. Undefined: `after` counts. */
  afterSequence: number | undefined;
  /** At most one of each log. A log that is not named is followed from now on. */
  after: readonly LogPlace[];
  /** Of entries of each log: up to 500, and 100 if it is 0. */
  limit: number;
}

interface Followed {
  /** Those of each log in the order of their sequences. */
  entries: PlacedEntry[];
  /** Where the next call goes on in log 0. */
  nextAfter: number;
  /** Sequence of the last entry of log 0. */
  size: number;
  /** Where the next call goes on in each log. Empty if only log 0 is followed. */
  next: LogPlace[];
  hasMore: boolean;
  /** Logs that cannot be read now, while others can: their places stay as they were. */
  away: number[];
}

/**
 * Loses no entry: numbers have no gaps and become visible in their order, also those of entries that are stored late.
 * @throws {DomainError} `validation_failed` for a place beyond a log, or too many actions; `service_unavailable` if no log answers.
 */
export type FollowEntries = (following: Following) => Promise<Followed>;

/** Remembers which of the logs do not answer. */
export function createFollowing(logs: Logs<ReadableLog>): FollowEntries {
  const silences = new Silences();
  return (following) => followEntries(logs, silences, following);
}

/** Logs that have not answered in time: only the first call waits long for one. */
class Silences {
  readonly #silent = new Set<number>();
  readonly #asked = new Set<number>();

  /** @throws {DomainError} `service_unavailable` if it does not answer in time, or as it answers. */
  async answerOf<T>(log: number, ask: () => Promise<T>): Promise<T> {
    const wasSilent = this.#silent.has(log);
    if (wasSilent && this.#asked.has(log)) throw new DomainError("service_unavailable");
    this.#asked.add(log);
    const askedMs = performance.now();
    const answer = ask()
      .then((found) => {
        if (performance.now() - askedMs < AWAY_AFTER_MS) this.#silent.delete(log);
        return found;
      })
      .finally(() => this.#asked.delete(log));
    try {
      return await withinDeadline(answer, wasSilent ? STILL_AWAY_AFTER_MS : AWAY_AFTER_MS);
    } catch (problem) {
      // A caller that has gone, or has no time left, is no fault of the log.
      if (meansAway(problem) && (callTimeLeftMs() ?? 1) > 0) this.#silent.add(log);
      throw problem;
    }
  }
}

const meansAway = (problem: unknown) =>
  problem instanceof DomainError && problem.code === "service_unavailable";

async function followEntries(
  logs: Logs<ReadableLog>,
  silences: Silences,
  following: Following,
): Promise<Followed> {
  const { afterSequence, after } = following;
  const fields = withoutProblems(following.withoutActions);
  if (fields.length > 0) throw new DomainError("validation_failed", undefined, { fields });
  assertPlaces(logs, following);
  const [first, ...others] = logs;
  const placeIn = (log: number) => after.find((place) => place.log === log)?.sequence;
  const share = Math.max(Math.floor(MAX_ANSWER_ENTRIES / Math.max(after.length, 1)), 1);
  const limit = Math.min(following.limit || DEFAULT_LIMIT, share);
  const follow = (log: ReadableLog) =>
    followLog(log, { ...following, limit }, afterSequence ?? placeIn(log.number));
  if (afterSequence !== undefined || others.length === 0) return together([await follow(first)], following);
  const away: number[] = [];
  const all = logs.map(async (log): Promise<FollowedLog | undefined> => {
    try {
      return await silences.answerOf(log.number, () => follow(log));
    } catch (problem) {
      if (!meansAway(problem)) throw problem;
      if (away.push(log.number) === logs.length) throw problem;
      const sequence = placeIn(log.number);
      return sequence === undefined
        ? undefined
        : { entries: [], place: { log: log.number, sequence }, size: sequence };
    }
  });
  const found = (await Promise.all(all)).filter((log) => log !== undefined);
  return { ...together(found, following), away: away.sort((a, b) => a - b) };
}

interface FollowedLog {
  entries: PlacedEntry[];
  place: LogPlace;
  size: number;
}

function together(
  all: readonly FollowedLog[],
  { afterSequence }: Pick<Following, "afterSequence">,
): Followed {
  const first = all.find(({ place }) => place.log === 0);
  return {
    entries: all.flatMap(({ entries }) => entries),
    nextAfter: first?.place.sequence ?? 0,
    size: first?.size ?? 0,
    next: afterSequence === undefined ? all.map(({ place }) => place) : [],
    hasMore: all.some(({ place, size }) => place.sequence < size),
    away: [],
  };
}

function assertPlaces(logs: Logs<ReadableLog>, { afterSequence, after }: Following): void {
  const wrong = (code: string, message: string) => invalidField("after", code, message);
  if (afterSequence !== undefined && after.length > 0) {
    throw wrong("conflict", "names either a place in log 0 alone, or one in each log");
  }
  if (new Set(after.map(({ log }) => log)).size < after.length) throw wrong("conflict", "names a log twice");
  const unknown = after.find(({ log }) => !logs.some(({ number }) => number === log));
  if (unknown !== undefined) throw wrong("out_of_range", `there is no log ${unknown.log}`);
}

async function followLog(
  { number, sql }: ReadableLog,
  filter: Filter & Pick<Following, "limit">,
  wanted: number | undefined,
): Promise<FollowedLog> {
  const size = await selectSize(sql);
  const after = wanted ?? size;
  if (after > size) throw invalidField("after", "out_of_range", "is beyond the end of the log");
  const last = Math.min(after + MAX_READ, size);
  const place = { log: number, sequence: last };
  if (last === after) return { entries: [], place, size };
  const read = await selectProvenEntries(sql, { first: after + 1, last });
  const matching = read.map(({ entry }) => entry).filter(matcherOf(filter));
  const entries = matching.slice(0, filter.limit).map((entry) => ({ ...entry, log: number }));
  const end = matching.length > filter.limit ? entries.at(-1) : undefined;
  return { entries, place: { log: number, sequence: end?.sequence ?? last }, size };
}

function matcherOf({
  actorUserId,
  action,
  resource,
  outcome,
  withoutActions,
}: Filter): (entry: LogEntry) => boolean {
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
