import { bytesOfBase64 } from "./base64.ts";
import { BadEntryError, checkEntry } from "./check-entry.ts";
import { type Checkpoint, openCheckpoint, openRemoval } from "./checkpoint.ts";
import { checkLine, type EntryLine, type ExportLine, LineError, type LogLine } from "./export-line.ts";
import type { LoggedEntry } from "./logged-entry.ts";
import { CompactRange, HASH_BYTES, subtreesOf } from "./merkle.ts";
import type { NotedCheckpoint } from "./noted-checkpoints.ts";
import { NoteError, type VerifierKey } from "./signed-note.ts";
import { Spool } from "./spool.ts";
import type { Finding, FindingCode, Verdict } from "./verdict.ts";

/** Trust anchors from outside the log. */
interface LogTrust {
  /** At least one, all with the log's origin as name. */
  keys: readonly VerifierKey[];
  checkpoints: readonly Checkpoint[];
  /** By size. Absent: log 0, or one without log 0. */
  noted?: Iterable<NotedCheckpoint>;
  /** The export may begin late and end before a trusted checkpoint. */
  isPartial: boolean;
}

export interface LogVerificationOptions {
  trust: LogTrust;
  /** Lines of the file that come before the log. */
  linesBefore: number;
  /** Called for an entry that fits those before it. Only a checkpoint proves it. */
  onEntry?: (entry: LoggedEntry) => void;
  /** What is wrong with the log's place in the file. */
  misplaced?: string;
}

export class NotAnExportError extends Error {
  override readonly name = "NotAnExportError";
}

type Source = "ofLog" | "noted" | "trusted";

/** A root that the log must have. */
interface Head {
  checkpoint: Checkpoint;
  source: Source;
  /** From outside, or noted in an entry that one from outside proves. */
  isTrusted: boolean;
}

const ORDER = { log: 0, removal: 1, entry: 2, checkpoint: 3 } as const;
const SOURCE_NAMES: Record<Source, string> = {
  ofLog: "the log's own checkpoint",
  noted: "the noted checkpoint",
  trusted: "the trusted checkpoint",
};
const NO_CHAIN = Buffer.alloc(HASH_BYTES);
const MAX_FINDINGS = 10;
/** 32,768 are 1 MiB, and 32 MB in a file are a million entries. */
const LEAVES_IN_MEMORY = 32_768;

/**
 * Uses constant memory. After the first bad entry only checkpoints are processed, which prove earlier entries.
 * @see docs/audit-log-format.md
 */
export class LogVerification {
  readonly #trust: LogTrust;
  readonly #options: LogVerificationOptions;
  readonly #outside: Generator<Head>;
  #nextOutside: Head | undefined;
  /** Leaf hashes until the next checkpoint. */
  readonly #spool = new Spool(HASH_BYTES, LEAVES_IN_MEMORY);
  #log: LogLine | undefined;
  #phase = 0;
  #lines: number;
  #entries = 0;
  /** The last good entry, or the one before the first. */
  #last: { sequence: number; chainHash: Buffer } = { sequence: 0, chainHash: NO_CHAIN };
  #entriesEnded = false;
  #removedUpTo = 0;
  #tree = new CompactRange();
  #badEntry: Finding | undefined;
  readonly #badNotes: Finding[] = [];
  /** By a checkpoint from there, or from a place that is trusted more. */
  readonly #upTo = { ofLog: 0, noted: 0, trusted: 0 };
  #signedUpTo = 0;
  #lastCompared: Checkpoint | undefined;
  #lastOfLog = 0;
  readonly #compared = { ofLog: 0, noted: 0, trusted: 0 };
  readonly #notCompared = {
    ofLog: { before: 0, behind: 0 },
    noted: { before: 0, behind: 0 },
    trusted: { before: 0, behind: 0 },
  };
  #hasTrusted = false;
  #erasedAddresses = 0;

  constructor(options: LogVerificationOptions) {
    this.#options = options;
    this.#trust = options.trust;
    this.#lines = options.linesBefore;
    this.#outside = headsOf(options.trust);
    this.#nextOutside = this.#outside.next().value;
  }

  /** Undefined before the first line. */
  get origin(): string | undefined {
    return this.#log?.origin;
  }

  /** The log's checkpoints, which end it, have begun. */
  get isEnding(): boolean {
    return this.#phase === ORDER.checkpoint;
  }

  get progress(): { entries: number; ofEntries: number } {
    const { firstSequence = 1, lastSequence = 0 } = this.#log ?? {};
    return { entries: this.#entries, ofEntries: lastSequence + 1 - firstSequence };
  }

  /**
   * @param read Returns the unchecked line. Its LineError becomes a finding.
   * @throws {NotAnExportError} if the first line does not begin an export.
   */
  take(read: () => unknown): void {
    this.#lines += 1;
    try {
      const line = read();
      checkLine(line);
      this.#takeInOrder(line);
    } catch (error) {
      if (error instanceof BadEntryError) this.#endAt(error.code, error.sequence, error.message);
      else if (error instanceof LineError) this.#takeBadLine(error.message);
      else throw error;
    }
  }

  /** @throws {NotAnExportError} without lines. */
  finish(): Verdict {
    const log = this.#log;
    if (log === undefined) throw new NotAnExportError("It is empty");
    this.#endEntries(log);
    this.#compareOutside(log, Number.POSITIVE_INFINITY);
    this.#checkRemovals(log);
    this.#checkCover(log);
    const findings = this.#findings(log);
    const { ofLog, noted, trusted } = this.#compared;
    return {
      result: findings.length > 0 ? "tampered" : this.#isCovered(log) ? "proven" : "unproven",
      findings,
      origin: log.origin,
      firstSequence: log.firstSequence,
      lastSequence: log.lastSequence,
      provenUpTo: this.#upTo.ofLog,
      trustedUpTo: this.#upTo.trusted,
      checkpoints: this.#trust.noted === undefined ? { ofLog, trusted } : { ofLog, noted, trusted },
      erasedAddresses: this.#erasedAddresses,
      caveats: this.#caveats(log),
    };
  }

  close(): void {
    this.#spool.close();
  }

  #takeInOrder(line: ExportLine): void {
    const phase = ORDER[line.type];
    const log = this.#log;
    if (log === undefined) {
      if (line.type !== "log") throw new LineError("is not a valid log header");
      this.#begin(line);
      return;
    }
    if (phase < this.#phase || line.type === "log") throw new LineError("is out of order");
    this.#phase = phase;
    if (line.type === "entry") this.#takeEntry(line, log);
    else if (line.type === "removal") this.#takeRemoval(line.note, log);
    else this.#takeCheckpoint(line.note, log);
  }

  #takeBadLine(problem: string): void {
    const log = this.#log;
    if (log === undefined) throw new NotAnExportError(`The first line ${problem}`);
    const message = `Line ${this.#lines} ${problem}`;
    const next = this.#last.sequence + 1;
    if (this.#phase < ORDER.checkpoint && next <= log.lastSequence) this.#endAt("form", next, message);
    else this.#findNote("form", message);
  }

  #begin(log: LogLine): void {
    this.#log = log;
    const before = log.firstSequence - 1;
    const name = this.#trust.keys[0]?.name;
    if (log.origin !== name)
      this.#findNote("log", `The log is ${log.origin}, but the trusted key is of ${name}`);
    if (this.#options.misplaced !== undefined) this.#findNote("order", this.#options.misplaced);
    const head = log.treeHead
      .map((text) => bytesOfBase64(text, HASH_BYTES))
      .filter((subtree) => subtree !== undefined);
    const chainHash = bytesOfBase64(log.chainHash, HASH_BYTES);
    const isProper = head.length === log.treeHead.length && head.length === subtreesOf(before);
    if (!isProper || chainHash === undefined || (before === 0 && !chainHash.equals(NO_CHAIN))) {
      const message = "The hashes of the entries before the first one are invalid";
      this.#endAt("log", log.firstSequence, message);
      return;
    }
    this.#last = { sequence: before, chainHash };
    this.#tree = new CompactRange(before, head);
  }

  #takeRemoval(note: string, { firstSequence: first }: LogLine): void {
    const removal = this.#open(openRemoval, note);
    if (removal === undefined) return;
    const { firstSequence, lastSequence } = removal;
    const follows = firstSequence === this.#removedUpTo + 1 && lastSequence >= firstSequence;
    if (!follows || lastSequence >= first) {
      this.#findNote(
        "removal",
        `The removal of ${rangeText(firstSequence, lastSequence)} does not follow the previous one`,
      );
      return;
    }
    this.#removedUpTo = lastSequence;
    if (lastSequence === this.#tree.size && !this.#tree.root().equals(removal.root)) {
      const message = `The hashes before entry ${first} differ from those of the removed entries`;
      this.#findEntry("root", firstSequence, lastSequence, message);
    }
  }

  #takeEntry(line: EntryLine, { firstSequence, lastSequence }: LogLine): void {
    this.#entries += 1;
    if (this.#entriesEnded) return;
    const sequence = this.#last.sequence + 1;
    const { leafHash, chainHash } = checkEntry(line, {
      firstSequence,
      sequence,
      chainHash: this.#last.chainHash,
    });
    if (sequence > lastSequence)
      throw new BadEntryError("order", sequence, `Entry ${sequence} comes after the last one of the export`);
    if (line.claimedEmail === undefined && line.entry.actor.claimedEmailHash !== "")
      this.#erasedAddresses += 1;
    this.#spool.append(leafHash);
    this.#last = { sequence, chainHash };
    this.#options.onEntry?.(line.entry);
  }

  #takeCheckpoint(note: string, log: LogLine): void {
    this.#endEntries(log);
    const checkpoint = this.#open(openCheckpoint, note);
    if (checkpoint === undefined) return;
    if (checkpoint.size < this.#lastOfLog) throw new LineError("is a checkpoint out of order");
    this.#lastOfLog = checkpoint.size;
    this.#compareOutside(log, checkpoint.size);
    this.#compare({ checkpoint, source: "ofLog", isTrusted: false }, log);
  }

  #open<T>(open: (note: string, keys: readonly VerifierKey[]) => T, note: string): T | undefined {
    try {
      return open(note, this.#trust.keys);
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
      this.#findNote(error.code, `The note in line ${this.#lines} ${error.message}`);
      return undefined;
    }
  }

  #endEntries({ lastSequence }: LogLine): void {
    const next = this.#last.sequence + 1;
    if (this.#entriesEnded || next > lastSequence) return;
    const message = `The end of the export is missing: ${rangeText(next, lastSequence)}`;
    this.#endAt("missing", next, message);
  }

  #compareOutside(log: LogLine, upToSize: number): void {
    for (;;) {
      const head = this.#nextOutside;
      if (head === undefined || head.checkpoint.size > upToSize) return;
      this.#nextOutside = this.#outside.next().value;
      this.#hasTrusted ||= head.isTrusted;
      this.#compare(head, log);
    }
  }

  /** Sizes must not decrease between calls, because all roots after a bad one are bad. */
  #compare(head: Head, log: LogLine): void {
    const { checkpoint, source } = head;
    const { size, root, time } = checkpoint;
    const twin = this.#lastCompared;
    this.#lastCompared = checkpoint;
    this.#signedUpTo = size;
    if (twin?.size === size && !twin.root.equals(root)) {
      const message = `Two checkpoints of size ${size} have different roots (${twin.time} and ${time}): two histories were signed with the key`;
      this.#findNote("fork", message);
    }
    if (size < log.firstSequence - 1) this.#notCompared[source].before += 1;
    else if (size > this.#goodUpTo()) this.#compareBehind(head, log);
    else this.#compareRoot(head, log);
  }

  #compareRoot(
    { checkpoint: { size, root, time }, source, isTrusted }: Head,
    { firstSequence }: LogLine,
  ): void {
    this.#compared[source] += 1;
    while (this.#tree.size < size) this.#tree.append(this.#spool.next());
    if (this.#tree.root().equals(root)) {
      this.#upTo.ofLog = size;
      if (source !== "ofLog") this.#upTo.noted = size;
      if (isTrusted) this.#upTo.trusted = size;
      return;
    }
    // Checkpoints of a rebuilt log, signed with the key, must not narrow the range.
    const known = this.#upTo[isTrusted ? "trusted" : source];
    const first = Math.max(known + 1, Math.min(firstSequence, size));
    const message = `With ${rangeText(first, size)} the root differs from that of ${SOURCE_NAMES[source]} of ${time} (size ${size}): entries were rewritten, or the log was rebuilt`;
    this.#findEntry("root", first, size, message);
  }

  #compareBehind({ checkpoint: { size, time }, source }: Head, { lastSequence }: LogLine): void {
    this.#notCompared[source].behind += 1;
    if (this.#trust.isPartial) return;
    const message = `The log ends at entry ${lastSequence}, and ${SOURCE_NAMES[source]} of ${time} says that it had ${size}: its end was cut, or an old backup restored`;
    this.#endAt("short", lastSequence + 1, message);
  }

  #goodUpTo(): number {
    return Math.min(this.#last.sequence, (this.#badEntry?.firstSequence ?? Number.POSITIVE_INFINITY) - 1);
  }

  #checkRemovals({ firstSequence }: LogLine): void {
    const first = this.#removedUpTo + 1;
    if (this.#trust.isPartial || first >= firstSequence) return;
    const gone = rangeText(first, firstSequence - 1);
    this.#findEntry("removal", first, firstSequence - 1, `No signed removal covers the missing ${gone}`);
  }

  /** That a log is empty must be signed, too. */
  #isCovered({ lastSequence }: LogLine): boolean {
    const { ofLog, noted, trusted } = this.#compared;
    return this.#upTo.ofLog >= lastSequence && ofLog + noted + trusted > 0;
  }

  #checkCover(log: LogLine): void {
    const { lastSequence } = log;
    const isPart = this.#trust.isPartial && this.#signedUpTo > lastSequence;
    if (this.#badEntry !== undefined || this.#badNotes.length > 0 || isPart) return;
    if (this.#isCovered(log)) return;
    const first = this.#upTo.ofLog + 1;
    const what =
      lastSequence === 0 ? "says that the log is empty" : `covers ${rangeText(first, lastSequence)}`;
    const message = `No signed checkpoint ${what}: the required one is missing`;
    this.#findEntry("uncovered", first, Math.max(first, lastSequence), message);
  }

  #endAt(code: FindingCode, sequence: number, message: string): void {
    this.#entriesEnded = true;
    this.#findEntry(code, sequence, sequence, message);
  }

  #findEntry(code: FindingCode, firstSequence: number, lastSequence: number, message: string): void {
    if ((this.#badEntry?.firstSequence ?? Number.POSITIVE_INFINITY) <= firstSequence) return;
    this.#badEntry = { code, firstSequence, lastSequence, message };
  }

  #findNote(code: FindingCode, message: string): void {
    if (this.#badNotes.length >= MAX_FINDINGS) return;
    this.#badNotes.push({ code, firstSequence: null, lastSequence: null, message });
  }

  /** A bad note names no entry, so all entries without other proof are in doubt. */
  #findings({ lastSequence }: LogLine): Finding[] {
    if (this.#badEntry !== undefined) return [this.#badEntry, ...this.#badNotes];
    if (this.#upTo.ofLog >= lastSequence) return this.#badNotes;
    return this.#badNotes.map((note) => ({ ...note, firstSequence: this.#upTo.ofLog + 1, lastSequence }));
  }

  #caveats({ firstSequence, lastSequence }: LogLine): string[] {
    const caveats: string[] = [];
    const outside = Math.max(this.#upTo.trusted + 1, firstSequence);
    if (!this.#hasTrusted && this.#upTo.noted > 0)
      caveats.push(
        "No checkpoint from outside the logs covers the entries of log 0 that note this log's checkpoints. With the signing key all logs could be rebuilt together.",
      );
    else if (!this.#hasTrusted)
      caveats.push(
        "No checkpoint from outside the log was given. With the signing key the whole log could be rebuilt, and a cut end or a restored old backup cannot be detected.",
      );
    else if (outside <= lastSequence)
      caveats.push(
        `No checkpoint from outside the log covers ${rangeText(outside, lastSequence)}, which could be rewritten with the signing key.`,
      );
    if (firstSequence > 1) {
      const why = this.#removedUpTo > 0 ? ` (removed by retention: up to ${this.#removedUpTo})` : "";
      caveats.push(`Not included: ${rangeText(1, firstSequence - 1)}${why}. Only their hashes are proven.`);
    }
    const unproven = Math.max(this.#upTo.ofLog + 1, firstSequence);
    if (unproven <= lastSequence && this.#badEntry === undefined)
      caveats.push(
        `Chained, but not covered by a signature that could be compared: ${rangeText(unproven, lastSequence)}.`,
      );
    for (const [source, name] of [
      ["trusted", "Trusted"],
      ["noted", "Noted"],
    ] as const) {
      const { before, behind } = this.#notCompared[source];
      if (before + behind > 0)
        caveats.push(
          `${name} checkpoints not compared: ${before} before its beginning, ${behind} after its end.`,
        );
    }
    return caveats;
  }
}

/** By size: a trusted one before a noted one of the same size. */
function* headsOf({ checkpoints, noted = [] }: LogTrust): Generator<Head, undefined> {
  const trusted = checkpoints.toSorted((a, b) => a.size - b.size).values();
  let next = trusted.next();
  for (const checkpoint of noted) {
    for (; !next.done && next.value.size <= checkpoint.size; next = trusted.next())
      yield { checkpoint: next.value, source: "trusted", isTrusted: true };
    yield { checkpoint, source: "noted", isTrusted: checkpoint.isTrusted };
  }
  for (; !next.done; next = trusted.next())
    yield { checkpoint: next.value, source: "trusted", isTrusted: true };
}

/** `entry 7`, `entries 7 to 9`. */
function rangeText(first: number, last: number): string {
  return last <= first ? `entry ${first}` : `entries ${first} to ${last}`;
}
