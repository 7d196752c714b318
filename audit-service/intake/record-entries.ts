import { isDeepStrictEqual } from "node:util";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { withCalls, withinDeadline } from "#kit/values/call-deadline.ts";
import { DomainError } from "#kit/values/errors.ts";
import { substituteId } from "../entries/clean-entry.ts";
import type { Entry, LogEntry, ProducedEntry } from "../entries/entry.ts";
import { isIdTaken } from "../entries/entry-store.ts";

export interface RecordDeps {
  insertEntries: (entries: readonly ProducedEntry[]) => Promise<number>;
  selectEntriesById: (ids: readonly string[]) => Promise<Entry[]>;
  logger: Logger;
  onCommit?: (commit: { entries: number; duplicates: number; seconds: number }) => void;
  maxGroupEntries?: number;
  maxWaitingEntries?: number;
  insertTimeoutMs?: number;
}

interface Submission {
  entries: readonly ProducedEntry[];
  resolve: () => void;
  reject: (error: unknown) => void;
}

const MAX_GROUP_ENTRIES = 500;
const MAX_WAITING_ENTRIES = 10_000;
/** Exceeds the statement timeout, whose error is more precise. */
const INSERT_TIMEOUT_MS = 2_500;
/** Another replica may take further ids between a look and the next insert. */
const MAX_INSERTS = 4;

/** Group commit: each insert stores everything that arrived during the last one. */
export class EntryRecorder {
  readonly #deps: RecordDeps;
  readonly #maxGroupEntries: number;
  readonly #maxWaitingEntries: number;
  readonly #insertTimeoutMs: number;
  readonly #waiting: Submission[] = [];
  #waitingEntries = 0;
  #isStoring = false;
  #roomAwaiters: (() => void)[] = [];

  constructor(deps: RecordDeps) {
    this.#deps = deps;
    this.#maxGroupEntries = deps.maxGroupEntries ?? MAX_GROUP_ENTRIES;
    this.#maxWaitingEntries = deps.maxWaitingEntries ?? MAX_WAITING_ENTRIES;
    this.#insertTimeoutMs = deps.insertTimeoutMs ?? INSERT_TIMEOUT_MS;
  }

  /** Excludes entries that are being stored. */
  get waitingEntries(): number {
    return this.#waitingEntries;
  }

  /** Resolves after the commit. @throws {DomainError} `service_unavailable`. */
  record(entries: readonly ProducedEntry[]): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ entries, resolve, reject });
      this.#waitingEntries += entries.length;
      // Of no call: what is stored for all must not end with the caller that came first.
      if (!this.#isStoring) void withCalls([], () => this.#storeAll());
    });
  }

  async room(): Promise<void> {
    if (this.#waitingEntries < this.#maxWaitingEntries) return;
    await new Promise<void>((resolve) => this.#roomAwaiters.push(resolve));
  }

  async #storeAll(): Promise<void> {
    this.#isStoring = true;
    // Collects the entries of this turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) await this.#storeGroup(this.#takeGroup());
    this.#isStoring = false;
  }

  #takeGroup(): Submission[] {
    let size = 0;
    let count = 0;
    for (const { entries } of this.#waiting) {
      if (count > 0 && size + entries.length > this.#maxGroupEntries) break;
      size += entries.length;
      count += 1;
    }
    this.#waitingEntries -= size;
    const group = this.#waiting.splice(0, count);
    if (this.#waitingEntries < this.#maxWaitingEntries) {
      for (const resolve of this.#roomAwaiters) resolve();
      this.#roomAwaiters = [];
    }
    return group;
  }

  async #storeGroup(group: readonly Submission[]): Promise<void> {
    try {
      await this.#insertDespiteTakenIds(group.flatMap(({ entries }) => entries));
      for (const { resolve } of group) resolve();
    } catch (error) {
      if (error instanceof DomainError) this.#rejectAll([...group, ...this.#takeEverything()], error);
      else await this.#storeEachAlone(group, error);
    }
  }

  /** Invalid entries of one producer must not block others. */
  async #storeEachAlone(group: readonly Submission[], cause: unknown): Promise<void> {
    this.#deps.logger.warn(
      { err: cause, submissions: group.length },
      "a group of entries cannot be stored; its messages are now stored one by one",
    );
    for (const [index, { entries, resolve, reject }] of group.entries()) {
      try {
        await this.#insertDespiteTakenIds(entries);
        resolve();
      } catch (error) {
        if (error instanceof DomainError)
          return this.#rejectAll([...group.slice(index), ...this.#takeEverything()], error);
        reject(error);
      }
    }
  }

  /** Looks for taken ids only after a conflict, and then once for the whole group. */
  async #insertDespiteTakenIds(entries: readonly ProducedEntry[]): Promise<void> {
    let free = entries;
    for (let inserts = 1; ; inserts += 1) {
      try {
        await this.#insert(free, entries.length);
        break;
      } catch (error) {
        if (!isIdTaken(error) || inserts === MAX_INSERTS) throw error;
        const ids = [...new Set(entries.map(({ entry }) => entry.id))];
        const stored = await withinDeadline(this.#deps.selectEntriesById(ids), this.#insertTimeoutMs);
        free = withFreeIds(entries, stored);
      }
    }
    if (free !== entries) this.#logNewIds(entries, free);
  }

  #logNewIds(entries: readonly ProducedEntry[], stored: readonly ProducedEntry[]): void {
    const ids = new Set(entries.map(({ entry }) => entry.id));
    const renamed = stored.filter(({ entry }) => !ids.has(entry.id));
    if (renamed.length === 0) return;
    const [{ origin, entry } = {}] = renamed;
    this.#deps.logger.warn(
      { entries: renamed.length, producer: origin?.producerName, id: entry?.id },
      "other entries had the ids of these: they are stored under new ids",
    );
  }

  /** @param received With the repetitions that are not in `entries`. */
  async #insert(entries: readonly ProducedEntry[], received: number): Promise<void> {
    const startedMs = performance.now();
    const { insertEntries, onCommit } = this.#deps;
    const stored =
      entries.length === 0 ? 0 : await withinDeadline(insertEntries(entries), this.#insertTimeoutMs);
    onCommit?.({
      entries: stored,
      duplicates: received - stored,
      seconds: (performance.now() - startedMs) / 1_000,
    });
  }

  /** Later entries must not overtake repeated ones. */
  #takeEverything(): Submission[] {
    const everything: Submission[] = [];
    while (this.#waiting.length > 0) everything.push(...this.#takeGroup());
    return everything;
  }

  #rejectAll(submissions: readonly Submission[], error: DomainError): void {
    this.#deps.logger.warn({ err: error, submissions: submissions.length }, "entries cannot be stored now");
    for (const { reject } of submissions) reject(error);
  }
}

/** An identical entry is a repetition by an outbox. A different one gets a new id. */
function withFreeIds(entries: readonly ProducedEntry[], stored: readonly Entry[]): ProducedEntry[] {
  const taken = new Map(stored.map((entry) => [entry.id, entry]));
  return entries.flatMap((produced) => {
    const { entry, origin } = produced;
    const holder = taken.get(entry.id);
    if (holder === undefined) {
      taken.set(entry.id, entry);
      return [produced];
    }
    return isSame(holder, entry) ? [] : [{ ...produced, entry: { ...entry, id: substituteId(origin) } }];
  });
}

/** Ignores what the log has added, and the claimed address, which may be erased in the log. */
function isSame(holder: Entry, entry: Entry): boolean {
  return isDeepStrictEqual(comparable(holder), comparable(entry));
}

function comparable(entry: Entry & Partial<Omit<LogEntry, keyof Entry>>) {
  const { id, sequence, receivedAt, producer, actor, ...facts } = entry;
  const { userId, role, sessionId } = actor;
  return { ...facts, userId, role, sessionId };
}

/** Returns what counts those of a log. */
export function countCommits(metrics: Metrics): (log: number) => NonNullable<RecordDeps["onCommit"]> {
  const stored = metrics.counter("gatehouse_audit_entries_stored_total", "Entries committed.", ["log"]);
  const repeated = metrics.counter(
    "gatehouse_audit_entries_repeated_total",
    "Entries sent again although they were committed.",
  );
  const seconds = metrics.histogram("gatehouse_audit_commit_seconds", "Duration of a group commit.");
  return (log) => (commit) => {
    stored.inc({ log: String(log) }, commit.entries);
    repeated.inc(commit.duplicates);
    seconds.observe(commit.seconds);
  };
}
