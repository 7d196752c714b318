import { createReadStream } from "node:fs";
import { LineError } from "./export-line.ts";

const CHUNK_BYTES = 1024 * 1024;
const MAX_LINE_BYTES = 1024 * 1024;
const LINE_FEED = 0x0a;

/** @throws {LineError} for a line of more than 1 MiB, and errors of the file system. */
export async function* readLines(path: string): AsyncGenerator<readonly Buffer[]> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) {
    const bytes = rest.length === 0 ? (chunk as Buffer) : Buffer.concat([rest, chunk as Buffer]);
    const lines: Buffer[] = [];
    let start = 0;
    for (let end = bytes.indexOf(LINE_FEED); end !== -1; end = bytes.indexOf(LINE_FEED, start)) {
      lines.push(bytes.subarray(start, end));
      start = end + 1;
    }
    rest = bytes.subarray(start);
    if (rest.length > MAX_LINE_BYTES) throw new LineError(`is longer than ${MAX_LINE_BYTES} bytes`);
    if (lines.length > 0) yield lines;
  }
  if (rest.length > 0) yield [rest];
}
