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

const READ_BYTES = 1024 * 1024;

/** Who reads the last stream gets the errors of all. */
const ignore = () => undefined;

/** JSON in lines, or one array of JSON. @throws errors of the file system, and of an array that is not JSON. */
export async function* readJsonRecords(path: string): AsyncGenerator<FileRecord> {
  yield* (await firstCharacter(path)) === "[" ? readArray(path) : readJsonLines(path);
}

async function* readJsonLines(path: string): AsyncGenerator<FileRecord> {
  let at = 0;
  for await (const lines of readLines(path)) {
    for (const line of lines) {
      at += 1;
      const text = line
        .toString("utf8")
        .replace(/^\uFEFF/, "")
        .trim();
      if (text !== "") yield { at, value: parsedOrUndefined(text) };
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
export async function* readArray(path: string, member?: string): AsyncGenerator<FileRecord> {
  const file = createReadStream(path, { highWaterMark: READ_BYTES });
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

/** Rows of CSV with a head line. @throws errors of the file system, and of a file that is not CSV. */
export async function* readCsvRecords(path: string): AsyncGenerator<FileRecord> {
  const rows = pipeline(
    createReadStream(path, { highWaterMark: READ_BYTES }),
    parse({ columns: true, info: true, bom: true, max_record_size: READ_BYTES }),
    ignore,
  );
  for await (const { record, info } of rows as AsyncIterable<{ record: unknown; info: { lines: number } }>) {
    yield { at: info.lines, value: record };
  }
}

async function firstCharacter(path: string): Promise<string> {
  const file = await open(path, "r");
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(1_024), 0, 1_024, 0);
    return buffer
      .toString("utf8", 0, bytesRead)
      .replace(/^\uFEFF/, "")
      .trimStart()
      .charAt(0);
  } finally {
    await file.close();
  }
}
