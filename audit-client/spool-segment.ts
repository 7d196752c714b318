import type { SpoolFile } from "./spool-file-system.ts";
import {
  decodeFileHeader,
  decodeRecord,
  FILE_HEADER_BYTES,
  MAX_RECORD_BYTES,
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
  /** Records behind `bytes` are lost to a damaged one. The file is to be kept for people to look at. */
  isDamaged?: boolean;
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
  /** Undefined if it does not begin with a whole record. */
  segment: SpoolSegment | undefined;
  /** Length of the torn tail, which is cut off. */
  cutBytes: number;
  /** Whole records, which somebody was told are durable, follow on bytes that are none. Then nothing is cut off. */
  isDamaged: boolean;
}

/** Reads a file that a former process has left, to where its whole records end, and cuts off a torn one behind them. */
export async function recoverSegment(path: string, file: SpoolFile): Promise<FoundSegment> {
  const size = await file.size();
  const producerId = decodeFileHeader(await file.read(0, FILE_HEADER_BYTES));
  let position = FILE_HEADER_BYTES;
  let firstSequence: number | undefined;
  let lastSequence = 0;
  while (producerId !== undefined) {
    const { records, nextPosition } = await readRecords({ file }, { from: position, to: size }, READ_RECORDS);
    if (records.length === 0) break;
    firstSequence ??= records[0]?.sequence;
    lastSequence = records.at(-1)?.sequence ?? 0;
    position = nextPosition;
  }
  const isDamaged = await hasRecord(file, { from: position, to: size });
  const cutBytes = isDamaged ? 0 : Math.max(0, size - position);
  if (cutBytes > 0) await file.truncate(position);
  if (producerId === undefined || firstSequence === undefined) {
    return { segment: undefined, cutBytes, isDamaged };
  }
  const segment = { path, file, producerId, firstSequence, lastSequence, bytes: position, isDamaged };
  return { segment, cutBytes, isDamaged };
}

/** Whether a whole record begins anywhere in a range. By chance one does in a file in a hundred million. */
async function hasRecord(file: SpoolFile, { from, to }: { from: number; to: number }): Promise<boolean> {
  for (let start = from; start < to; start += READ_BYTES) {
    // Together with what a record that begins in the last byte may still need.
    const bytes = await file.read(start, Math.min(READ_BYTES + MAX_RECORD_BYTES, to - start));
    const end = Math.min(READ_BYTES, bytes.length);
    for (let at = 0; at < end; at += 1) {
      if (decodeRecord(bytes.subarray(at)) !== undefined) return true;
    }
  }
  return false;
}
