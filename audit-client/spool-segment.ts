import { readAround } from "./read-around.ts";
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

/** One file of the spool: records of one producer, with sequences that count up. Damage leaves gaps between them. */
export interface SpoolSegment {
  path: string;
  file: SpoolFile;
  producerId: string;
  firstSequence: number;
  lastSequence: number;
  /** Where the last whole and durable record ends. What follows was never vouched for. */
  bytes: number;
  /** Records of the file are lost. It is to be kept for people to look at. */
  isDamaged?: boolean;
}

/** Records whose sequences count up by 1. */
export interface RecordsRead {
  records: SpoolRecord[];
  nextPosition: number;
  /** Bytes before or behind the records could not be read, or are no record. */
  isDamaged: boolean;
}

/**
 * Reads the first run of consecutive records from a position on, at most `limit`. Damage before it is skipped.
 *
 * @throws the file system's error if too many blocks are unreadable and no record was found before them.
 */
export async function readRecords(
  { file }: Pick<SpoolSegment, "file">,
  range: { from: number; to: number },
  limit: number,
): Promise<RecordsRead> {
  const records: SpoolRecord[] = [];
  let nextPosition = range.from;
  let isDamaged = false;
  while (records.length < limit && nextPosition < range.to) {
    const length = Math.min(READ_BYTES, range.to - nextPosition);
    const read = await readAround(file, nextPosition, length).catch((error: unknown) => {
      if (records.length === 0) throw error;
    });
    if (read === undefined) break; // records before it are intact; the next call reports the error
    isDamaged ||= read.hasBadBlocks;
    const taken = takeRecords(read.bytes, records, limit);
    nextPosition += taken;
    if (taken > 0) continue;
    // A record is shorter than what is read at once: none at the beginning means damage, or the end.
    if (records.length > 0) break;
    const found = await findRecord(file, { from: nextPosition + 1, to: range.to });
    isDamaged ||= found.hasBadBlocks || found.position !== undefined;
    nextPosition = found.position ?? range.to;
  }
  return { records, nextPosition, isDamaged };
}

/** Adds whole records from the beginning of some bytes while they count up by 1. @returns how many bytes they take. */
function takeRecords(bytes: Buffer, records: SpoolRecord[], limit: number): number {
  let at = 0;
  while (records.length < limit) {
    const record = decodeRecord(bytes.subarray(at));
    const last = records.at(-1);
    if (record === undefined || (last !== undefined && record.sequence !== last.sequence + 1)) break;
    records.push(record);
    at += recordBytes(record.entry.length);
  }
  return at;
}

/** Numbers of entries that were durable and cannot be read any more. */
export interface LostEntries {
  fromSequence: number;
  toSequence: number;
}

/** What was found in a file of a former process. */
export interface FoundSegment {
  /** Undefined if it has no whole record. */
  segment: SpoolSegment | undefined;
  /** Length of the torn tail, which is cut off. */
  cutBytes: number;
  /** Bytes that are no record lie before whole ones, which somebody was told are durable, or cannot be read. */
  isDamaged: boolean;
  /** Between whole records; of what lay before the first or behind the last one, nobody knows the numbers. */
  lost: LostEntries[];
}

const PRODUCER_OF_FILE = /([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-\d+\.spool$/;

/**
 * Reads a file that a former process has left, past damage, and cuts off a torn record behind the last whole one.
 * Nothing is cut off a damaged file, and where most of one cannot be read, what lies behind is left out.
 *
 * @throws what the file system says if not even the file's beginning can be read.
 */
export async function recoverSegment(path: string, file: SpoolFile): Promise<FoundSegment> {
  const size = await file.size();
  const header = await readAround(file, 0, FILE_HEADER_BYTES);
  const namedProducer = decodeFileHeader(header.bytes);
  const producerId = namedProducer ?? PRODUCER_OF_FILE.exec(path)?.[1];
  const lost: LostEntries[] = [];
  let position = FILE_HEADER_BYTES;
  let end = position;
  let firstSequence: number | undefined;
  let lastSequence = 0;
  let isDamaged = header.hasBadBlocks;
  while (position < size) {
    const read = await readRecords({ file }, { from: position, to: size }, READ_RECORDS).catch(
      () => undefined,
    );
    isDamaged ||= read === undefined || read.isDamaged;
    if (read === undefined) break;
    position = read.nextPosition;
    const next = read.records[0]?.sequence;
    if (next === undefined) break;
    if (firstSequence !== undefined && next > lastSequence + 1) {
      lost.push({ fromSequence: lastSequence + 1, toSequence: next - 1 });
    }
    firstSequence ??= next;
    lastSequence = read.records.at(-1)?.sequence ?? next;
    end = position;
  }
  isDamaged ||= namedProducer === undefined && firstSequence !== undefined;
  const cutBytes = isDamaged ? 0 : Math.max(0, size - end);
  if (cutBytes > 0) await file.truncate(end);
  if (producerId === undefined || firstSequence === undefined) {
    return { segment: undefined, cutBytes, isDamaged, lost };
  }
  const segment = { path, file, producerId, firstSequence, lastSequence, bytes: end, isDamaged };
  return { segment, cutBytes, isDamaged, lost };
}

/** Where the next whole record begins. By chance one seems to in a file in a hundred million. */
async function findRecord(
  file: SpoolFile,
  { from, to }: { from: number; to: number },
): Promise<{ position: number | undefined; hasBadBlocks: boolean }> {
  let hasBadBlocks = false;
  for (let start = from; start < to; start += READ_BYTES) {
    // Together with what a record that begins in the last byte may still need.
    const read = await readAround(file, start, Math.min(READ_BYTES + MAX_RECORD_BYTES, to - start));
    hasBadBlocks ||= read.hasBadBlocks;
    const end = Math.min(READ_BYTES, read.bytes.length);
    for (let at = 0; at < end; at += 1) {
      if (decodeRecord(read.bytes.subarray(at)) !== undefined) return { position: start + at, hasBadBlocks };
    }
  }
  return { position: undefined, hasBadBlocks };
}
