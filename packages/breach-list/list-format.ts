/**
 * A breach list is a file: the header, the remainders of all buckets in ascending order, and the index. Integers are
 * little-endian. A hash belongs to the bucket that its first `bucketBits` bits name. Its remainder is the next 32 bits.
 * Entry `b` of the index is the number of remainders before bucket `b`. See docs/decisions/passwords.md.
 */
export interface ListHeader {
  entries: number;
  bucketBits: number;
  /** Number of remainders in the largest bucket: the most that a look-up reads. */
  largestBucket: number;
  builtAt: Date;
  /** Describes the source. */
  label: string;
  /** SHA-256 of everything after the header, followed by the header up to here. */
  checksum: Buffer;
}

/** The message names the cause without the file. */
export class BreachListError extends Error {
  override readonly name = "BreachListError";
}

/** As in PNG, a byte above 127 and line breaks reveal a transfer as text. */
const MAGIC = Buffer.from("\x89GHBL\r\n\x1a", "latin1");
const BYTE_ORDER = 0x01020304;
const OTHER_BYTE_ORDER = 0x04030201;
const VERSION = 1;
const AT = { byteOrder: 8, version: 12, entries: 16, bucketBits: 20, largestBucket: 24, labelBytes: 28 };
const BUILT_AT = 32;
const LABEL_AT = 40;
const CHECKSUM_AT = 160;

export const MAX_LABEL_BYTES = CHECKSUM_AT - LABEL_AT;
export const HEADER_BYTES = 192;
export const REMAINDER_BYTES = 4;
export const INDEX_ENTRY_BYTES = 4;
export const MAX_ENTRIES = 0xffff_ffff;
export const MAX_BUCKET_BITS = 24;
/** SHA-1 hashes never come near it: a bucket has 64 on average. */
export const MAX_BUCKET_ENTRIES = 1_024;

/** @returns the part of the header that the checksum covers. */
export function encodeHeader(header: Omit<ListHeader, "checksum">): Buffer {
  const bytes = Buffer.alloc(CHECKSUM_AT);
  MAGIC.copy(bytes);
  bytes.writeUInt32LE(BYTE_ORDER, AT.byteOrder);
  bytes.writeUInt32LE(VERSION, AT.version);
  bytes.writeUInt32LE(header.entries, AT.entries);
  bytes.writeUInt32LE(header.bucketBits, AT.bucketBits);
  bytes.writeUInt32LE(header.largestBucket, AT.largestBucket);
  bytes.writeUInt32LE(Buffer.byteLength(header.label), AT.labelBytes);
  bytes.writeBigUInt64LE(BigInt(header.builtAt.getTime()), BUILT_AT);
  bytes.write(header.label, LABEL_AT, MAX_LABEL_BYTES, "utf8");
  return bytes;
}

/**
 * Checks everything but the checksum.
 * @param bytes the file's first bytes, at most `HEADER_BYTES`. @param fileBytes its size. @throws {BreachListError}
 */
export function decodeHeader(bytes: Buffer, fileBytes: number): ListHeader {
  refuseForeign(bytes);
  const [entries, bucketBits] = [bytes.readUInt32LE(AT.entries), bytes.readUInt32LE(AT.bucketBits)];
  const largestBucket = bytes.readUInt32LE(AT.largestBucket);
  const labelBytes = bytes.readUInt32LE(AT.labelBytes);
  if (bucketBits > MAX_BUCKET_BITS || largestBucket > MAX_BUCKET_ENTRIES || labelBytes > MAX_LABEL_BYTES)
    throw new BreachListError("its header is damaged");
  const expectedBytes = indexStart({ entries }) + ((1 << bucketBits) + 1) * INDEX_ENTRY_BYTES;
  if (fileBytes < expectedBytes)
    throw new BreachListError(`it is truncated: it has ${fileBytes} of ${expectedBytes} bytes`);
  if (fileBytes > expectedBytes)
    throw new BreachListError(`it has ${fileBytes} instead of ${expectedBytes} bytes`);
  return {
    entries,
    bucketBits,
    largestBucket,
    builtAt: new Date(Number(bytes.readBigUInt64LE(BUILT_AT))),
    label: bytes.toString("utf8", LABEL_AT, LABEL_AT + labelBytes),
    checksum: bytes.subarray(CHECKSUM_AT, HEADER_BYTES),
  };
}

function refuseForeign(bytes: Buffer): void {
  if (/^[\da-f]{32}/i.test(bytes.toString("latin1", 0, 32)))
    throw new BreachListError(
      "it is a list of hashes: make a breach list of it with gatehouse breach-list build",
    );
  if (!bytes.subarray(0, MAGIC.length).equals(MAGIC)) throw new BreachListError("it is no breach list");
  if (bytes.length < HEADER_BYTES)
    throw new BreachListError(
      `it is truncated: it has ${bytes.length} of ${HEADER_BYTES} bytes of its header`,
    );
  const byteOrder = bytes.readUInt32LE(AT.byteOrder);
  if (byteOrder === OTHER_BYTE_ORDER) throw new BreachListError("it was written in another byte order");
  if (byteOrder !== BYTE_ORDER) throw new BreachListError("its header is damaged");
  const version = bytes.readUInt32LE(AT.version);
  if (version !== VERSION)
    throw new BreachListError(`it has format version ${version}, and this program reads version ${VERSION}`);
}

export function coveredByChecksum(header: Buffer): Buffer {
  return header.subarray(0, CHECKSUM_AT);
}

export function indexStart({ entries }: Pick<ListHeader, "entries">): number {
  return HEADER_BYTES + entries * REMAINDER_BYTES;
}

/** @param high the first 32 bits of the hash. */
export function bucketOf(bucketBits: number, high: number): number {
  return bucketBits === 0 ? 0 : high >>> (32 - bucketBits);
}

/** @param low the second 32 bits. */
export function remainderOf(bucketBits: number, high: number, low: number): number {
  return bucketBits === 0 ? high >>> 0 : ((high << bucketBits) | (low >>> (32 - bucketBits))) >>> 0;
}
