import { isUtf8 } from "node:buffer";
import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { pipeline } from "node:stream";
import { parse } from "csv-parse";
import { pick } from "stream-json/filters/pick.js";
import { streamArray } from "stream-json/streamers/stream-array.js";
import { readLines } from "../audit-verifier/read-lines.ts";

/** Undefined: not JSON. Secrets are in it. */
export interface FileRecord {
  /** Line, or in an array the number of the element, from 1. */
  at: number;
  value: unknown;
}

/** Why a whole file cannot be imported. Its message holds nothing of the file but names of columns and realms. */
export class FileProblem extends Error {
  override readonly name = "FileProblem";
}

/** Called with the bytes of what has been taken. */
export type OnRead = (bytes: number) => void;

/** Small, so that what was read is hardly more than what was taken. */
const READ_BYTES = 64 * 1024;
const MAX_RECORD_BYTES = 1024 * 1024;
const NOT_UTF8 = "is not text in UTF-8: save it as UTF-8";

/** Who reads the last stream gets the errors of all. */
const ignore = () => undefined;

/** JSON in lines, or one array of JSON. @throws {FileProblem}; errors of the file system, and of an array that is not JSON. */
export async function* readJsonRecords(path: string, onRead?: OnRead): AsyncGenerator<FileRecord> {
  const isArray = (await jsonBracket(path)) === "[";
  yield* isArray ? readArray(path, { onRead }) : readJsonLines(path, onRead);
}

async function* readJsonLines(path: string, onRead?: OnRead): AsyncGenerator<FileRecord> {
  let at = 0;
  let isFirst = true;
  for await (const lines of readLines(path)) {
    for (const line of lines) {
      at += 1;
      onRead?.(line.length + 1);
      if (!isUtf8(line)) throw new FileProblem(`${NOT_UTF8} (line ${at})`);
      const text = line
        .toString("utf8")
        .replace(/^\uFEFF/, "")
        .trim();
      if (text === "") continue;
      const value = parsedOrUndefined(text);
      if (value === undefined && isFirst)
        throw new FileProblem("has no JSON in its first line: each line must be one user");
      isFirst = false;
      yield { at, value };
    }
  }
}

function parsedOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Elements of an array, or of the array that is a member of an object. */
export async function* readArray(
  path: string,
  { member, onRead }: { member?: string; onRead?: OnRead | undefined },
): AsyncGenerator<FileRecord> {
  const file = readChunks(path, onRead);
  const elements =
    member === undefined
      ? pipeline(file, streamArray.withParserAsStream(), ignore)
      : pipeline(
          file,
          pick.withParserAsStream({ filter: member, once: true }),
          streamArray.asStream(),
          ignore,
        );
  for await (const { key, value } of elements as AsyncIterable<{ key: number; value: unknown }>) {
    yield { at: key + 1, value };
  }
}

/** Rows of CSV with a head line. @throws {FileProblem}; errors of the file system, and of a file that is not CSV. */
export async function* readCsvRecords(
  path: string,
  needed: readonly string[],
  onRead?: OnRead,
): AsyncGenerator<FileRecord> {
  if (/[[{]/.test(await firstCharacter(path))) {
    throw new FileProblem("is JSON, but its name ends with .csv: rename it to .ndjson");
  }
  const columns = (head: string[]) => checkedHead(head, needed);
  const rows = pipeline(
    readChunks(path, onRead),
    parse({ columns, info: true, bom: true, max_record_size: MAX_RECORD_BYTES }),
    ignore,
  );
  for await (const { record, info } of rows as AsyncIterable<{ record: unknown; info: { lines: number } }>) {
    yield { at: info.lines, value: record };
  }
}

/** @throws {FileProblem} for what is not UTF-8: parsers would replace it, and names and ids would be others. */
async function* readChunks(path: string, onRead?: OnRead): AsyncGenerator<Buffer> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const decode = (chunk?: Buffer) => {
    try {
      decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      throw new FileProblem(NOT_UTF8);
    }
  };
  for await (const chunk of createReadStream(path, { highWaterMark: READ_BYTES })) {
    decode(chunk as Buffer);
    yield chunk as Buffer;
    onRead?.((chunk as Buffer).length);
  }
  decode();
}

function checkedHead(head: string[], needed: readonly string[]): string[] {
  const missing = needed.filter((name) => !head.includes(name));
  if (missing.length > 0) {
    throw new FileProblem(
      `has no column ${missing.join(" and no column ")} in its first line, which must name the columns, separated by commas`,
    );
  }
  if (new Set(head).size < head.length) throw new FileProblem("names a column twice in its first line");
  return head;
}

/** Of JSON, whatever it holds. @throws {FileProblem}. */
export async function jsonBracket(path: string): Promise<"{" | "["> {
  const first = await firstCharacter(path);
  if (first === "{" || first === "[") return first;
  throw new FileProblem(
    "is not JSON, which begins with { or [. The name of a CSV of Supabase ends with .csv",
  );
}

/** The first characters of files that are no text in UTF-8, and what to do. */
const OTHER_FORMS: readonly (readonly [start: string, problem: string])[] = [
  ["\xff\xfe", "is text in UTF-16, as PowerShell writes it: save it as UTF-8"],
  ["\xfe\xff", "is text in UTF-16: save it as UTF-8"],
  ["\x1f\x8b", "is compressed (gzip): unpack it first"],
  ["PK", "is an archive (ZIP): unpack it first"],
  ["BZh", "is compressed (bzip2): unpack it first"],
  ["\xfd7zXZ", "is compressed (xz): unpack it first"],
  ["7z\xbc\xaf", "is an archive (7z): unpack it first"],
  ["\x28\xb5\x2f\xfd", "is compressed (zstd): unpack it first"],
];

/** After a byte order mark and spaces. @throws {FileProblem} for an empty file, and for one that is no text in UTF-8. */
async function firstCharacter(path: string): Promise<string> {
  const file = await open(path, "r");
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(1_024), 0, 1_024, 0);
    const start = buffer.subarray(0, bytesRead);
    const bytes = start.toString("latin1");
    const [, problem] = OTHER_FORMS.find(([beginning]) => bytes.startsWith(beginning)) ?? [];
    if (problem !== undefined) throw new FileProblem(problem);
    if (start.includes(0)) throw new FileProblem(NOT_UTF8);
    const first = start
      .toString("utf8")
      .replace(/^\uFEFF/, "")
      .trimStart()
      .charAt(0);
    if (first === "") throw new FileProblem("is empty");
    if (first === "<") throw new FileProblem("is HTML or XML: download the export itself");
    return first;
  } finally {
    await file.close();
  }
}
