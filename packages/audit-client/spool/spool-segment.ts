import { readAround, type SpoolFile } from "./spool-file-system.ts";
import {
  decodeFileHeader,
  decodeRecord,
  FILE_HEADER_BYTES,
  MAX_RECORD_BYTES,
  recordBytes,
  type SpoolRecord,
} from "./spool-record.ts";

/** Exceeds the longest record. */
const READ_BYTES = 256 * 1024;
const READ_RECORDS = 1_000;

/** Sequences increase. Damage leaves gaps. */
export interface SpoolSegment {
  path: string;
  file: SpoolFile;
  producerId: string;
  firstSequence: number;
  lastSequence: number;
  /** End of the last durable record. */
  bytes: number;
  isDamaged?: boolean;
}

export interface RecordsRead {
  records: SpoolRecord[];
  nextPosition: number;
  isDamaged: boolean;
}

/** Skips damage at the start. @throws the file system's error with too many bad blocks before any record. */
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
    if (read === undefined) break; // The next call reports the error.
    isDamaged ||= read.hasBadBlocks;
    const taken = takeRecords(read.bytes, records, limit);
    nextPosition += taken;
    if (taken > 0) continue;
    // A record is shorter than a read, so this is damage or the end.
    if (records.length > 0) break;
    const found = await findRecord(file, { from: nextPosition + 1, to: range.to });
    isDamaged ||= found.hasBadBlocks || found.position !== undefined;
    nextPosition = found.position ?? range.to;
  }
  return { records, nextPosition, isDamaged };
}

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

export interface LostEntries {
  fromSequence: number;
  toSequence: number;
}

export interface FoundSegment {
  segment: SpoolSegment | undefined;
  /** Length of the removed torn tail. */
  cutBytes: number;
  isDamaged: boolean;
  /** Gaps between intact records. */
  lost: LostEntries[];
}

const PRODUCER_OF_FILE = /([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-\d+\.spool$/;

/** Cuts off a torn tail, but nothing of a damaged file. */
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

/** Random bytes match in one of 100 million files. */
async function findRecord(
  file: SpoolFile,
  { from, to }: { from: number; to: number },
): Promise<{ position: number | undefined; hasBadBlocks: boolean }> {
  let hasBadBlocks = false;
  for (let start = from; start < to; start += READ_BYTES) {
    // The overlap completes a record that starts in the last byte.
    const read = await readAround(file, start, Math.min(READ_BYTES + MAX_RECORD_BYTES, to - start));
    hasBadBlocks ||= read.hasBadBlocks;
    const end = Math.min(READ_BYTES, read.bytes.length);
    for (let at = 0; at < end; at += 1) {
      if (decodeRecord(read.bytes.subarray(at)) !== undefined) return { position: start + at, hasBadBlocks };
    }
  }
  return { position: undefined, hasBadBlocks };
}
