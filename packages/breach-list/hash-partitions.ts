import { closeSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";

/** One for each first byte of a hash. */
export const PARTITIONS = 256;
const BUFFERED_HASHES = 4_096;

/** Sorts more hashes than memory holds. */
export interface HashPartitions {
  /** Keeps 56 bits. */
  add: (high: number, low: number) => void;
  count(): number;
  sizeOf(partition: number): number;
  /** Bits 9 to 56 of the partition's hashes, as integers in ascending order. */
  sorted(partition: number): Float64Array;
  close(): void;
}

export function createHashPartitions(folder: string): HashPartitions {
  const partitions = Array.from({ length: PARTITIONS }, () => ({
    size: 0,
    buffer: new Float64Array(BUFFERED_HASHES),
    file: undefined as number | undefined,
  }));
  const at = (partition: number) => partitions[partition] as (typeof partitions)[number];
  let count = 0;
  return {
    add(high, low) {
      const partition = at(high >>> 24);
      const place = partition.size % BUFFERED_HASHES;
      partition.buffer[place] = (high & 0xff_ffff) * 2 ** 24 + (low >>> 8);
      partition.size += 1;
      count += 1;
      if (place < BUFFERED_HASHES - 1) return;
      partition.file ??= openUnnamed(join(folder, `partition-${high >>> 24}`));
      writeFully(partition.file, new Uint8Array(partition.buffer.buffer));
    },
    count: () => count,
    sizeOf: (partition) => at(partition).size,
    sorted(partition) {
      const { size, buffer, file } = at(partition);
      const hashes = new Float64Array(size);
      const written = size - (size % BUFFERED_HASHES);
      if (file !== undefined) readFully(file, new Uint8Array(hashes.buffer, 0, written * 8));
      hashes.set(buffer.subarray(0, size - written), written);
      return hashes.sort();
    },
    close() {
      for (const { file } of partitions) if (file !== undefined) closeSync(file);
    },
  };
}

/** Removed at once, so that a killed process leaves nothing. */
function openUnnamed(path: string): number {
  const file = openSync(path, "wx+", 0o600);
  rmSync(path);
  return file;
}

function writeFully(file: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
}

function readFully(file: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) {
    const read = readSync(file, bytes, done, bytes.length - done, done);
    if (read === 0) throw new Error(`a scratch file ends after ${done} of ${bytes.length} bytes`);
    done += read;
  }
}
