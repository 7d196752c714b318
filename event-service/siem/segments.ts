import { createHash } from "node:crypto";
import type { ExportLine } from "#audit-client/stream/export-line.ts";
import type { Sql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { LogSpan } from "../stream/audit-log-client.ts";
import type { Places } from "../stream/event-source.ts";
import { type Collector, CollectorProblem } from "./collector.ts";
import { type CollectorLease, findSegment, planSegment } from "./collector-store.ts";
import type { EntryReader } from "./entry-reader.ts";

const MAX_ENTRIES = 10_000;
const IDLE_MS = 1_000;
/** Limits a segment in memory. Entries have some 1 KiB and at most some 6, and a checkpoint comes some entries after the wanted end. */
const MAX_BYTES = 96 * 1024 * 1024;
const EXPORT_TIMEOUT_MS = 120_000;

/** Where segments are kept. Each wait has a deadline. @throws {CollectorProblem} */
export interface SegmentPlace {
  /** Undefined if there is nothing of this name. */
  read(name: string, signal: AbortSignal): Promise<Buffer | undefined>;
  /** Whole and for good, or not at all. Replaces what is there. */
  write(name: string, bytes: Buffer, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export interface SegmentLog {
  reader: Pick<EntryReader, "tip" | "receivedAfter" | "tellRemoved">;
  exportLog(span: LogSpan, signal: AbortSignal): AsyncIterable<readonly ExportLine[]>;
}

export interface SegmentOptions extends SegmentLog {
  sql: Sql;
  lease: CollectorLease;
  place: SegmentPlace;
  /** An entry waits at most so long for others. */
  maxSeconds: number;
  maxEntries?: number;
  now: () => Date;
}

/** Written after its segment, and never changed: whoever sees it may trust that the segment is whole. */
export interface Manifest {
  v: 1;
  log: number;
  first: number;
  last: number;
  count: number;
  /** File name of the segment, in the folder of the manifest. */
  name: string;
  bytes: number;
  /** Hexadecimal. */
  sha256: string;
  /** Signed note that covers `last`. */
  checkpoint: string;
  /** The segment of the same log before it; null for the first one. */
  former: string | null;
}

/** Stores exports of the logs, one after the other, that are verified as any export is. */
export function openSegmentCollector(options: SegmentOptions): Collector {
  const writer = new SegmentWriter(options);
  return {
    name: "segments",
    idleMs: IDLE_MS,
    push: (places, signal) => writer.push(places, signal),
    close: () => options.place.close(),
  };
}

class SegmentWriter {
  readonly #options: SegmentOptions;
  readonly #maxEntries: number;
  /** By log: when the first entry after a place is old enough. */
  readonly #dueAt = new Map<number, { place: number; ms: number }>();
  /** After it the next look begins, so that the trouble of one log is not that of all. */
  #lastLog = -1;

  constructor(options: SegmentOptions) {
    this.#options = options;
    this.#maxEntries = options.maxEntries ?? MAX_ENTRIES;
  }

  async push(places: Places, signal: AbortSignal): Promise<Places | undefined> {
    const logs = Object.keys(this.#options.reader.tip).map(Number);
    const [before, after] = [
      logs.filter((log) => log <= this.#lastLog),
      logs.filter((log) => log > this.#lastLog),
    ];
    for (const log of [...after, ...before]) {
      this.#lastLog = log;
      const last = await this.#pushLog(log, places[log] ?? 0, signal);
      if (last !== undefined) return { ...places, [log]: last };
    }
    return undefined;
  }

  /** @returns the end of a segment that is stored; undefined if none is due, or no checkpoint covers it yet. */
  async #pushLog(log: number, place: number, signal: AbortSignal): Promise<number | undefined> {
    const { reader } = this.#options;
    const count = (reader.tip[log] ?? 0) - place;
    if (count < 0) throw new CollectorProblem(`log ${log} is shorter than it was`);
    if (count === 0) return undefined;
    const isFull = count >= this.#maxEntries;
    if (!isFull && !(await this.#isOld(log, place))) return undefined;
    const from = (first: number) =>
      this.#store({ log, first, last: isFull ? first + this.#maxEntries - 1 : 0 }, signal);
    try {
      return await from(place + 1);
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    const first = await this.#firstKept(log, signal);
    if (first === undefined || first <= place + 1) return undefined;
    reader.tellRemoved(log, place, first - place - 1);
    return from(first).catch((error: unknown) => {
      if (isNotFound(error)) return undefined;
      throw error;
    });
  }

  async #isOld(log: number, place: number): Promise<boolean> {
    const { reader, maxSeconds, now } = this.#options;
    let due = this.#dueAt.get(log);
    if (due?.place !== place) {
      const receivedAt = await reader.receivedAfter(log, place);
      due = { place, ms: (receivedAt?.getTime() ?? 0) + maxSeconds * 1_000 };
      this.#dueAt.set(log, due);
    }
    return now().getTime() >= due.ms;
  }

  async #firstKept(log: number, signal: AbortSignal): Promise<number | undefined> {
    try {
      for await (const [line] of this.#options.exportLog({ log, first: 0, last: 0 }, signal))
        return line?.type === "log" ? line.firstSequence : undefined;
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    return undefined;
  }

  /** @throws {DomainError} `not_found` before anything is written. */
  async #store(wanted: LogSpan, signal: AbortSignal): Promise<number> {
    const { sql, place } = this.#options;
    const { log, first } = wanted;
    const manifestName = `${nameOf(log, first)}.manifest.json`;
    const bytes = await place.read(manifestName, signal);
    const existing = bytes && parseManifest(bytes, manifestName);
    const begun = existing ?? (await findSegment(sql, log));
    const end = this.#options.reader.tip[log] ?? 0;
    if (existing !== undefined && (existing.first !== first || existing.last > end))
      throw new CollectorProblem(`${manifestName} is of another log`);
    const last = begun?.first === first && begun.last <= end ? begun.last : wanted.last;
    const { content, manifest } = await this.#export({ log, first, last }, signal);
    if (existing === undefined) {
      await this.#plan({ log, first, last: manifest.last });
      await place.write(manifest.name, content, signal);
      await this.#plan({ log, first, last: manifest.last });
      await place.write(manifestName, Buffer.from(`${JSON.stringify(manifest)}\n`), signal);
    } else if (existing.checkpoint !== manifest.checkpoint) {
      throw new CollectorProblem(`${manifestName} is of another log`);
    }
    return manifest.last;
  }

  async #export(span: LogSpan, signal: AbortSignal): Promise<{ content: Buffer; manifest: Manifest }> {
    const { log, first } = span;
    const until = AbortSignal.any([signal, AbortSignal.timeout(EXPORT_TIMEOUT_MS)]);
    const chunks: Buffer[] = [];
    const made = { last: 0, count: 0, bytes: 0, checkpoint: "", former: null as string | null };
    for await (const lines of this.#options.exportLog(span, until)) {
      for (const line of lines) {
        if (line.type === "log")
          Object.assign(made, await this.#plan({ log, first, last: line.lastSequence }));
        if (line.type === "entry") made.count += 1;
        if (line.type === "checkpoint") made.checkpoint = line.note;
      }
      const chunk = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
      made.bytes += chunk.length;
      if (made.bytes > MAX_BYTES) throw new CollectorProblem("a segment is too long");
      chunks.push(chunk);
    }
    until.throwIfAborted();
    if (made.count !== made.last - first + 1) throw new CollectorProblem("an export has a gap");
    const content = Buffer.concat(chunks);
    const sha256 = createHash("sha256").update(content).digest("hex");
    return { content, manifest: { v: 1, log, first, name: `${nameOf(log, first)}.jsonl`, sha256, ...made } };
  }

  /** Again before each write, so that a run without the lease writes nothing. */
  async #plan(segment: LogSpan): Promise<Pick<Manifest, "last" | "former">> {
    const { sql, lease } = this.#options;
    const planned = await planSegment(sql, lease, segment);
    if (planned === undefined) throw new CollectorProblem("the lease has ended");
    const { formerFirst } = planned;
    const former = formerFirst === undefined ? null : `${nameOf(segment.log, formerFirst)}.jsonl`;
    return { last: segment.last, former };
  }
}

/** In the order of logs and sequences. */
function nameOf(log: number, first: number): string {
  return `${String(log).padStart(3, "0")}/${String(first).padStart(16, "0")}`;
}

/** What another run has stored; somebody else may have, too. */
function parseManifest(bytes: Buffer, name: string): Pick<Manifest, "first" | "last" | "checkpoint"> {
  const { first, last, checkpoint } = parse(bytes, name);
  if (!Number.isSafeInteger(first) || !Number.isSafeInteger(last) || last < first)
    throw new CollectorProblem(`${name} is no manifest`);
  return { first, last, checkpoint };
}

function parse(bytes: Buffer, name: string): Manifest {
  try {
    return Object(JSON.parse(bytes.toString("utf8"))) as Manifest;
  } catch (cause) {
    throw new CollectorProblem(`${name} is no manifest`, { cause });
  }
}

function isNotFound(error: unknown): boolean {
  return error instanceof DomainError && error.code === "not_found";
}
