import type { SpoolFile } from "./spool-file-system.ts";
import {
  decodeFileHeader,
  decodeRecord,
  FILE_HEADER_BYTES,
  recordBytes,
  type SpoolRecord,
} from "./spool-record.ts";

/** More than the longest record. */
const READ_BYTES = 256 * 1024;
const READ_RECORDS = 1_000;

/** One file of the spool: records of one producer, with sequences that count up by 1. */
export interface SpoolSegment {
  path: string;
  file: SpoolFile;
  producerId: string;
  firstSequence: number;
  lastSequence: number;
  /** How much of the file is whole and durable. What follows was never vouched for. */
  bytes: number;
}

/** Records, and where the next one begins. */
export interface RecordsRead {
  records: SpoolRecord[];
  nextPosition: number;
}

/** Reads at most `limit` whole records from a position on. Stops early at the first that is damaged. */
export async function readRecords(
  { file }: Pick<SpoolSegment, "file">,
  range: { from: number; to: number },
  limit: number,
): Promise<RecordsRead> {
  const records: SpoolRecord[] = [];
  let nextPosition = range.from;
  while (records.length < limit && nextPosition < range.to) {
    const bytes = await file.read(nextPosition, Math.min(READ_BYTES, range.to - nextPosition));
    const before = nextPosition;
    for (let at = 0; records.length < limit; at = nextPosition - before) {
      const record = decodeRecord(bytes.subarray(at));
      if (record === undefined) break;
      records.push(record);
      nextPosition += recordBytes(record.entry.length);
    }
    // A record is shorter than what is read at once: none in it means damage, or the end.
    if (nextPosition === before) break;
  }
  return { records, nextPosition };
}

/** What was found in a file of a former process. */
export interface FoundSegment {
  /** Undefined if not one whole record is in it: then nothing in it was ever acknowledged. */
  segment: SpoolSegment | undefined;
  /** Length of the torn tail, which is cut off. */
  cutBytes: number;
}

/** Reads a file that a former process has left, to where its whole records end, and cuts off the rest. */
export async function recoverSegment(path: string, file: SpoolFile): Promise<FoundSegment> {
  const size = await file.size();
  const producerId = decodeFileHeader(await file.read(0, FILE_HEADER_BYTES));
  if (producerId === undefined) return { segment: undefined, cutBytes: size };
  let position = FILE_HEADER_BYTES;
  let firstSequence: number | undefined;
  let lastSequence = 0;
  for (;;) {
    const { records, nextPosition } = await readRecords({ file }, { from: position, to: size }, READ_RECORDS);
    if (records.length === 0) break;
    firstSequence ??= records[0]?.sequence;
    lastSequence = records.at(-1)?.sequence ?? 0;
    position = nextPosition;
  }
  if (position < size) await file.truncate(position);
  const cutBytes = size - position;
  if (firstSequence === undefined) return { segment: undefined, cutBytes };
  return { segment: { path, file, producerId, firstSequence, lastSequence, bytes: position }, cutBytes };
}
