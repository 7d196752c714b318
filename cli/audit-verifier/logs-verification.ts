import type { LogCheckpoint } from "./checkpoint.ts";
import { checkLine, LineError } from "./export-line.ts";
import { keysOf, logNumberOf, originOf } from "./log-number.ts";
import { LogVerification, NotAnExportError } from "./log-verification.ts";
import type { LoggedEntry } from "./logged-entry.ts";
import { isNote, type NotedCheckpoint, NotedCheckpoints, readNote } from "./noted-checkpoints.ts";
import type { VerifierKey } from "./signed-note.ts";
import type { LogsVerdict, Verdict } from "./verdict.ts";

/** Trust anchors from outside the logs. */
export interface Trust {
  /** Of log 0, whose origin is their name. At least one. */
  keys: readonly VerifierKey[];
  checkpoints: readonly LogCheckpoint[];
  /** The export may begin late and end before a trusted checkpoint, and logs may be missing. */
  isPartial: boolean;
  /** All logs are expected, not log 0 alone. */
  isWhole?: boolean;
}

/** One log after the other. Uses constant memory. @see docs/audit-log-format.md */
export class LogsVerification {
  readonly #trust: Trust;
  #lines = 0;
  #section: LogVerification | undefined;
  /** The section's keys. Undefined: it is another log's. */
  #log: number | undefined;
  readonly #seen: number[] = [];
  readonly #verdicts: Verdict[] = [];
  #ofLog0: Verdict | undefined;
  readonly #noted = new Map<number, NotedCheckpoints>();
  /** Counts notes in log 0 that name no log. */
  #strangeNotes = 0;
  #done = { entries: 0, ofEntries: 0 };

  constructor(trust: Trust) {
    this.#trust = trust;
  }

  get progress(): { entries: number; ofEntries: number } {
    const { entries = 0, ofEntries = 0 } = this.#section?.progress ?? {};
    return { entries: this.#done.entries + entries, ofEntries: this.#done.ofEntries + ofEntries };
  }

  /**
   * @param read Returns the unchecked line. Its LineError becomes a finding.
   * @throws {NotAnExportError} if the first line does not begin an export.
   */
  take(read: () => unknown): void {
    let reread = read;
    try {
      const line = read();
      reread = () => line;
      const origin = this.#originOfNext(line);
      if (origin !== undefined) this.#begin(origin);
    } catch (error) {
      if (!(error instanceof LineError)) throw error;
      reread = () => {
        throw error;
      };
    }
    this.#section ??= this.#sectionOf(undefined);
    this.#section.take(reread);
    this.#lines += 1;
  }

  /** @throws {NotAnExportError} without lines. */
  finish(): LogsVerdict {
    if (this.#section === undefined) throw new NotAnExportError("It is empty");
    this.#end();
    const isAlone = this.#verdicts.length === 1 && this.#trust.isWhole !== true;
    for (const [log, why] of this.#missing(isAlone)) {
      const origin = originOf(log, this.#trust.keys);
      if (isAlone || this.#trust.isPartial) this.#addCaveat(`Not included: the log ${origin}. ${why}.`);
      else this.#verdicts.push(missingLog(origin, `The log is missing. ${why}`));
    }
    const results = this.#verdicts.map(({ result }) => result);
    const result = (["tampered", "unproven"] as const).find((bad) => results.includes(bad)) ?? "proven";
    return { result, logs: this.#verdicts };
  }

  close(): void {
    this.#section?.close();
    for (const noted of this.#noted.values()) noted.close();
  }

  /** If a log begins with this line. A header in a log that has not ended is a bad line of it. */
  #originOfNext(line: unknown): string | undefined {
    if (typeof line !== "object" || line === null || !("type" in line) || line.type !== "log")
      return undefined;
    checkLine(line);
    const section = this.#section;
    if (line.type !== "log" || (section?.origin === line.origin && !section.isEnding)) return undefined;
    return line.origin;
  }

  #begin(origin: string): void {
    this.#end();
    this.#log = logNumberOf(origin, this.#trust.keys);
    this.#section = this.#sectionOf(this.#log);
    if (this.#log !== undefined) this.#seen.push(this.#log);
  }

  /** @param log Undefined: another one, which its origin shows. */
  #sectionOf(log: number | undefined): LogVerification {
    const { keys, checkpoints, isPartial } = this.#trust;
    const misplaced = this.#misplaced(log);
    const noted = this.#notedOf(log);
    return new LogVerification({
      trust: {
        keys: keysOf(log ?? 0, keys),
        checkpoints: checkpoints.filter((checkpoint) => checkpoint.log === (log ?? 0)),
        ...(noted !== undefined && { noted }),
        isPartial,
      },
      linesBefore: this.#lines,
      ...(log === 0 && !this.#seen.includes(0) && { onEntry: (entry) => this.#note(entry) }),
      ...(misplaced !== undefined && { misplaced }),
    });
  }

  #misplaced(log: number | undefined): string | undefined {
    if (log === undefined) return undefined;
    if (this.#seen.includes(log)) return `Line ${this.#lines + 1} begins the log again`;
    const before = this.#seen.find((other) => other > log);
    if (before !== undefined)
      return `The log comes after ${originOf(before, this.#trust.keys)}, but logs must be in the order of their numbers`;
    if (this.#noted.get(log)?.isUnordered === true) return "Log 0 notes its checkpoints in no order";
    return undefined;
  }

  #notedOf(log: number | undefined): Iterable<NotedCheckpoint> | undefined {
    if (log === undefined || this.#ofLog0 === undefined || this.#seen.includes(log)) return undefined;
    const { provenUpTo: proven, trustedUpTo: trusted } = this.#ofLog0;
    return this.#noted.get(log)?.inOrder({ proven, trusted }) ?? [];
  }

  #note(entry: LoggedEntry): void {
    if (!isNote(entry)) return;
    const note = readNote(entry, this.#trust.keys);
    if (note === undefined) {
      this.#strangeNotes += 1;
      return;
    }
    let noted = this.#noted.get(note.log);
    if (noted === undefined) {
      noted = new NotedCheckpoints(entry.sequence);
      this.#noted.set(note.log, noted);
    }
    noted.append(entry.sequence, note);
  }

  #end(): void {
    const section = this.#section;
    if (section === undefined) return;
    const { entries, ofEntries } = this.progress;
    this.#verdicts.push(section.finish());
    this.#done = { entries, ofEntries };
    this.#section = undefined;
    section.close();
    if (this.#log !== 0 || this.#ofLog0 !== undefined) return;
    this.#ofLog0 = this.#verdicts.at(-1);
    if (this.#strangeNotes > 0)
      this.#addCaveat(`Entries that note a checkpoint of none of these logs: ${this.#strangeNotes}.`);
  }

  /** Number of each log that must be there and is not, and why it must. */
  #missing(isAlone: boolean): Map<number, string> {
    const missing = new Map<number, string>();
    for (const { log } of this.#trust.checkpoints) missing.set(log, "There are trusted checkpoints of it");
    for (const [log, { firstSequence }] of this.#noted)
      if (firstSequence <= (this.#ofLog0?.provenUpTo ?? 0))
        missing.set(log, `Entry ${firstSequence} of log 0 notes a checkpoint of it`);
    if (!isAlone) missing.set(0, "It must come first");
    for (const log of this.#seen) missing.delete(log);
    return missing;
  }

  #addCaveat(text: string): void {
    const verdict = this.#verdicts.at(-1);
    if (verdict !== undefined)
      this.#verdicts.splice(-1, 1, { ...verdict, caveats: [...verdict.caveats, text] });
  }
}

function missingLog(origin: string, message: string): Verdict {
  return {
    result: "tampered",
    findings: [{ code: "missing", firstSequence: 1, lastSequence: 1, message }],
    origin,
    firstSequence: 1,
    lastSequence: 0,
    provenUpTo: 0,
    trustedUpTo: 0,
    checkpoints: { ofLog: 0, trusted: 0 },
    erasedAddresses: 0,
    caveats: [],
  };
}
