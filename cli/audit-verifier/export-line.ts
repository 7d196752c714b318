import { isUtf8 } from "node:buffer";
import type { LoggedEntry } from "./logged-entry.ts";

/** Specified in docs/audit-log-format.md. Hashes and salts are base64. */
export type ExportLine = LogLine | NoteLine | EntryLine;

export interface LogLine {
  type: "log";
  v: number;
  origin: string;
  firstSequence: number;
  lastSequence: number;
  treeHead: readonly string[];
  chainHash: string;
}

interface NoteLine {
  type: "removal" | "checkpoint";
  note: string;
}

export interface EntryLine {
  type: "entry";
  entry: LoggedEntry;
  leafHash: string;
  chainHash: string;
  claimedEmail?: { salt: string; address: string };
}

/** The message continues "The line …". */
export class LineError extends Error {
  override readonly name = "LineError";
}

/** Requires the form of `JSON.stringify`, without duplicate keys, on which parsers disagree. @throws {LineError} */
export function parseExportLine(bytes: Uint8Array): unknown {
  if (!isUtf8(bytes)) throw new LineError("is not UTF-8");
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString();
  const value = parse(text);
  if (JSON.stringify(value) !== text) throw new LineError("is not JSON in canonical form");
  return value;
}

/** Does not check the entry itself. @throws {LineError} */
export function checkLine(line: unknown): asserts line is ExportLine {
  if (typeof line !== "object" || line === null || !("type" in line)) throw new LineError("has no type");
  const value = line as ExportLine;
  if (value.type === "entry") checkEntryLine(value);
  else if (value.type === "log") checkLogLine(value);
  else if (value.type === "checkpoint" || value.type === "removal") checkNoteLine(value);
  else throw new LineError("has an unknown type");
}

function checkNoteLine(line: NoteLine): void {
  if (typeof line.note !== "string" || membersOf(line) !== 2) throw new LineError("is not a note");
}

function checkEntryLine(line: EntryLine): void {
  const { leafHash, chainHash, claimedEmail } = line;
  const isKnown = membersOf(line) === (claimedEmail === undefined ? 4 : 5);
  if (!isKnown || typeof leafHash !== "string" || typeof chainHash !== "string")
    throw new LineError("is not an entry with its hashes");
  if (claimedEmail === undefined) return;
  const isProper =
    claimedEmail !== null &&
    membersOf(claimedEmail) === 2 &&
    typeof claimedEmail.salt === "string" &&
    typeof claimedEmail.address === "string" &&
    claimedEmail.address.isWellFormed();
  if (!isProper) throw new LineError("has no valid claimedEmail");
}

function checkLogLine(line: LogLine): void {
  const { v, origin, firstSequence, lastSequence, treeHead, chainHash } = line;
  if (v !== 1) throw new LineError(`has the unknown version ${v}`);
  const isProper =
    membersOf(line) === 7 &&
    typeof origin === "string" &&
    typeof chainHash === "string" &&
    Array.isArray(treeHead) &&
    treeHead.every((hash) => typeof hash === "string") &&
    Number.isSafeInteger(firstSequence) &&
    Number.isSafeInteger(lastSequence) &&
    firstSequence >= 1 &&
    lastSequence >= firstSequence - 1;
  if (!isProper) throw new LineError("is not a valid log header");
}

function membersOf(value: object): number {
  return Object.keys(value).length;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new LineError("is not JSON");
  }
}
