import { bytesOfBase64 } from "./base64.ts";
import { keysOf, logNumberOf } from "./log-number.ts";
import { HASH_BYTES } from "./merkle.ts";
import { NoteError, openNote, type VerifierKey } from "./signed-note.ts";

export interface Checkpoint {
  size: number;
  root: Buffer;
  time: string;
}

export interface LogCheckpoint extends Checkpoint {
  log: number;
}

export interface Removal {
  firstSequence: number;
  lastSequence: number;
  /** Root of the tree up to the last removed leaf. */
  root: Buffer;
  time: string;
}

const TIME = /^time (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)$/;
const DECIMAL = /^(0|[1-9]\d{0,15})$/;

/** @throws {NoteError} */
export function openCheckpoint(note: string, keys: readonly VerifierKey[]): Checkpoint {
  const [origin, size, root, time, ...rest] = openNote(note, keys);
  expectOrigin(origin, keys[0]?.name);
  if (rest.length > 0) throw new NoteError("form", "is not a checkpoint: it has further lines");
  return { size: toNumber(size), root: toHash(root), time: toTime(time) };
}

/** Takes the key of the log that its origin names. @param keys those of log 0. @throws {NoteError} */
export function openLogCheckpoint(note: string, keys: readonly VerifierKey[]): LogCheckpoint {
  const log = logNumberOf(note.slice(0, note.indexOf("\n")), keys) ?? 0;
  return { ...openCheckpoint(note, keysOf(log, keys)), log };
}

/** A size and a Base64 root. Undefined: not in this form. */
export function readHead(text: string): { size: number; root: Buffer } | undefined {
  const [size, root, ...rest] = text.split(" ");
  try {
    return rest.length > 0 ? undefined : { size: toNumber(size), root: toHash(root) };
  } catch {
    return undefined;
  }
}

/** @throws {NoteError} */
export function openRemoval(note: string, keys: readonly VerifierKey[]): Removal {
  const [origin, first, last, root, time, ...rest] = openNote(note, keys);
  expectOrigin(origin, `${keys[0]?.name}/removal`);
  if (rest.length > 0) throw new NoteError("form", "is not a removal: it has further lines");
  const firstSequence = toNumber(first);
  const lastSequence = toNumber(last);
  return { firstSequence, lastSequence, root: toHash(root), time: toTime(time) };
}

function expectOrigin(found: string | undefined, expected: string | undefined): void {
  if (found !== expected) throw new NoteError("form", `has the origin ${found}, not ${expected}`);
}

function toNumber(text = ""): number {
  const value = Number(text);
  if (!DECIMAL.test(text) || !Number.isSafeInteger(value)) throw new NoteError("form", "has no valid number");
  return value;
}

function toHash(text = ""): Buffer {
  const bytes = bytesOfBase64(text, HASH_BYTES);
  if (bytes === undefined) throw new NoteError("form", "has no valid root hash");
  return bytes;
}

function toTime(text = ""): string {
  const [, time] = TIME.exec(text) ?? [];
  if (time === undefined) throw new NoteError("form", "has no valid time");
  return time;
}
