import { crc32c } from "@node-rs/crc32";
import { parse as parseUuid, stringify as stringifyUuid } from "uuid";

/**
 * Format of a spool file. Numbers are big-endian, checksums CRC-32C (RFC 3720 §12.1).
 *
 * ```text
 * file    "GHSPOOL1" | producer id: 16 bytes | checksum of both: 4 | record …
 * record  length of the entry: 4 | checksum of the rest: 4 | sequence: 8 | entry, as protobuf
 * ```
 *
 * An entry is never empty, so zeros at the end after a crash are no record.
 */
export interface SpoolRecord {
  sequence: number;
  entry: Uint8Array;
}

const MAGIC = Buffer.from("GHSPOOL1");
const RECORD_HEADER_BYTES = 16;
const LENGTH_AT = 0;
const CHECKSUM_AT = 4;
const SEQUENCE_AT = 8;

export const FILE_HEADER_BYTES = MAGIC.length + 16 + 4;
/** Exceeds the longest entry. */
export const MAX_RECORD_BYTES = 64 * 1024;

export function encodeFileHeader(producerId: string): Buffer {
  const header = Buffer.alloc(FILE_HEADER_BYTES);
  MAGIC.copy(header);
  header.set(parseUuid(producerId), MAGIC.length);
  header.writeUInt32BE(crc32c(header.subarray(0, -4)), FILE_HEADER_BYTES - 4);
  return header;
}

export function decodeFileHeader(header: Buffer): string | undefined {
  if (header.length < FILE_HEADER_BYTES || !header.subarray(0, MAGIC.length).equals(MAGIC)) return undefined;
  const checksum = header.readUInt32BE(FILE_HEADER_BYTES - 4);
  if (checksum !== crc32c(header.subarray(0, FILE_HEADER_BYTES - 4))) return undefined;
  return stringifyUuid(header.subarray(MAGIC.length, MAGIC.length + 16));
}

export function recordBytes(entryBytes: number): number {
  return RECORD_HEADER_BYTES + entryBytes;
}

export function encodeRecord({ sequence, entry }: SpoolRecord): Buffer {
  const record = Buffer.allocUnsafe(recordBytes(entry.length));
  record.writeUInt32BE(entry.length, LENGTH_AT);
  record.writeBigUInt64BE(BigInt(sequence), SEQUENCE_AT);
  record.set(entry, RECORD_HEADER_BYTES);
  record.writeUInt32BE(checksumOf(record), CHECKSUM_AT);
  return record;
}

/** The result shares memory with `bytes`. */
export function decodeRecord(bytes: Buffer): SpoolRecord | undefined {
  if (bytes.length < RECORD_HEADER_BYTES) return undefined;
  const length = bytes.readUInt32BE(LENGTH_AT);
  const end = recordBytes(length);
  if (length === 0 || end > MAX_RECORD_BYTES || bytes.length < end) return undefined;
  const record = bytes.subarray(0, end);
  if (record.readUInt32BE(CHECKSUM_AT) !== checksumOf(record)) return undefined;
  return {
    sequence: Number(record.readBigUInt64BE(SEQUENCE_AT)),
    entry: record.subarray(RECORD_HEADER_BYTES),
  };
}

function checksumOf(record: Buffer): number {
  const length = record.subarray(LENGTH_AT, CHECKSUM_AT);
  return crc32c(record.subarray(SEQUENCE_AT), crc32c(length));
}
