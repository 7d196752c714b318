import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { createHashPartitions, type HashPartitions, PARTITIONS } from "./hash-partitions.ts";
import {
  BreachListError,
  bucketOf,
  encodeHeader,
  HEADER_BYTES,
  INDEX_ENTRY_BYTES,
  type ListHeader,
  MAX_BUCKET_BITS,
  MAX_BUCKET_ENTRIES,
  MAX_ENTRIES,
  MAX_LABEL_BYTES,
  REMAINDER_BYTES,
  remainderOf,
} from "./list-format.ts";
import { readHashLines } from "./read-hash-lines.ts";

export interface BuildOptions {
  input: AsyncIterable<Buffer>;
  /** Empty and writable at any position. */
  output: FileHandle;
  /** Existing folder for 8 bytes for each hash. */
  scratch: string;
  label: string;
  /** See `readHashLines`. */
  minCount: number;
  now: () => Date;
  signal?: AbortSignal | undefined;
  /** Called with the number of hashes and bytes read so far. */
  onRead?: ((hashes: number, bytes: number) => void) | undefined;
  /** Called with the number of hashes written so far, and of all that were read. */
  onWritten?: ((hashes: number, ofHashes: number) => void) | undefined;
}

/** At most 64 entries a bucket, on average, up to a billion. */
const BUCKET_ENTRIES = 64;
/** From this size on, partitions of SHA-1 hashes differ by far less than half. */
const MIN_EVEN_PARTITION = 400;

/**
 * Memory is bounded: 8 MB, and up to 8 bytes for each 128th hash.
 * @throws {BreachListError} for an input that is not a list of SHA-1 hashes, or is cut off.
 */
export async function buildBreachList(options: BuildOptions): Promise<ListHeader> {
  const { input, output, scratch, label, minCount, signal, onRead, onWritten } = options;
  if (Buffer.byteLength(label) > MAX_LABEL_BYTES)
    throw new BreachListError(`the label has more than ${MAX_LABEL_BYTES} bytes`);
  const partitions = createHashPartitions(scratch);
  try {
    await readHashLines(observed(input, partitions, signal, onRead), minCount, partitions.add);
    refuseUneven(partitions);
    return await writeList(output, partitions, { label, builtAt: options.now(), signal, onWritten });
  } finally {
    partitions.close();
  }
}

async function* observed(
  input: AsyncIterable<Buffer>,
  partitions: HashPartitions,
  signal: AbortSignal | undefined,
  onRead: BuildOptions["onRead"],
): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of input) {
    signal?.throwIfAborted();
    onRead?.(partitions.count(), bytes);
    yield chunk;
    bytes += chunk.length;
  }
}

function refuseUneven(partitions: HashPartitions): void {
  const count = partitions.count();
  if (count === 0) throw new BreachListError("the file has no hashes");
  if (count > MAX_ENTRIES) throw new BreachListError(`the file has more than ${MAX_ENTRIES} hashes`);
  const mean = count / PARTITIONS;
  if (mean < MIN_EVEN_PARTITION) return;
  for (let partition = 0; partition < PARTITIONS; partition += 1) {
    const size = partitions.sizeOf(partition);
    if (size < mean / 2 || size > mean * 2) {
      const prefix = partition.toString(16).toUpperCase().padStart(2, "0");
      throw new BreachListError(
        `the hashes are not spread evenly: ${size} begin with ${prefix}, and ${Math.round(mean)} are expected. ` +
          "The file is cut off, or its hashes are not SHA-1",
      );
    }
  }
}

interface ListFacts extends Pick<BuildOptions, "label" | "signal" | "onWritten"> {
  builtAt: Date;
}

async function writeList(
  output: FileHandle,
  partitions: HashPartitions,
  { label, builtAt, signal, onWritten }: ListFacts,
): Promise<ListHeader> {
  const bucketBits = bucketBitsFor(partitions.count());
  const index = new Uint32Array((1 << bucketBits) + 1);
  const digest = createHash("sha256");
  await output.write(Buffer.alloc(HEADER_BYTES));
  let entries = 0;
  for (let partition = 0; partition < PARTITIONS; partition += 1) {
    signal?.throwIfAborted();
    const remainders = encodePartition(partitions, partition, bucketBits, index);
    entries += remainders.length / REMAINDER_BYTES;
    digest.update(remainders);
    await output.writeFile(remainders);
    onWritten?.(entries, partitions.count());
  }
  const largestBucket = sumUp(index);
  const encodedIndex = Buffer.alloc(index.length * INDEX_ENTRY_BYTES);
  index.forEach((before, bucket) => void encodedIndex.writeUInt32LE(before, bucket * INDEX_ENTRY_BYTES));
  await output.writeFile(encodedIndex);
  const header = { entries, bucketBits, largestBucket, builtAt, label };
  const start = encodeHeader(header);
  const checksum = digest.update(encodedIndex).update(start).digest();
  await output.write(Buffer.concat([start, checksum]), 0, HEADER_BYTES, 0);
  return { ...header, checksum };
}

function bucketBitsFor(count: number): number {
  return Math.min(MAX_BUCKET_BITS, Math.max(0, Math.ceil(Math.log2(count / BUCKET_ENTRIES))));
}

/** Counts each bucket's entries at the following place of the index. */
function encodePartition(
  partitions: HashPartitions,
  partition: number,
  bucketBits: number,
  index: Uint32Array,
): Buffer {
  const hashes = partitions.sorted(partition);
  const encoded = Buffer.allocUnsafe(hashes.length * REMAINDER_BYTES);
  let length = 0;
  let [lastBucket, lastRemainder] = [-1, -1];
  for (const hash of hashes) {
    const high = (partition * 2 ** 24 + Math.floor(hash / 2 ** 24)) >>> 0;
    const low = ((hash % 2 ** 24) * 2 ** 8) >>> 0;
    const bucket = bucketOf(bucketBits, high);
    const remainder = remainderOf(bucketBits, high, low);
    if (bucket === lastBucket && remainder === lastRemainder) continue;
    [lastBucket, lastRemainder] = [bucket, remainder];
    index[bucket + 1] = (index[bucket + 1] ?? 0) + 1;
    length = encoded.writeUInt32LE(remainder, length);
  }
  return encoded.subarray(0, length);
}

/** Turns counts into sums. @returns the largest count. @throws {BreachListError} */
function sumUp(index: Uint32Array): number {
  let largest = 0;
  for (let bucket = 1; bucket < index.length; bucket += 1) {
    const count = index[bucket] ?? 0;
    largest = Math.max(largest, count);
    index[bucket] = count + (index[bucket - 1] ?? 0);
  }
  if (largest > MAX_BUCKET_ENTRIES)
    throw new BreachListError(`${largest} hashes begin with the same bits: they are not SHA-1`);
  return largest;
}
