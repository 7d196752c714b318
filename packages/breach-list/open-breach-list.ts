import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import {
  BreachListError,
  bucketOf,
  coveredByChecksum,
  decodeHeader,
  HEADER_BYTES,
  INDEX_ENTRY_BYTES,
  indexStart,
  type ListHeader,
  REMAINDER_BYTES,
  remainderOf,
} from "./list-format.ts";

const CHUNK_BYTES = 1024 * 1024;

/** Reads by position: the operating system's page cache holds the list, not the process. */
export interface BreachList {
  header: ListHeader;
  /**
   * False positives are rarer than 1 in 16 million.
   * @param sha1 of a password, at least 8 bytes. @throws {BreachListError} if the file was changed in place.
   */
  contains(sha1: Buffer): Promise<boolean>;
  /** Waits for look-ups. */
  close(): Promise<void>;
}

/**
 * Reads the whole file.
 * @param onRead Called with the bytes read so far, and of the file. @throws {BreachListError} naming the file and the cause.
 */
export async function openBreachList(
  path: string,
  onRead?: (bytes: number, ofBytes: number) => void,
): Promise<BreachList> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, "r");
    const { size, mtimeNs } = await file.stat({ bigint: true });
    const start = await readAt(file, 0, Math.min(HEADER_BYTES, Number(size)));
    const header = decodeHeader(start, Number(size));
    const digest = createHash("sha256");
    for (let position = HEADER_BYTES; position < size; position += CHUNK_BYTES) {
      digest.update(await readAt(file, position, Math.min(CHUNK_BYTES, Number(size) - position)));
      onRead?.(position, Number(size));
    }
    if (!digest.update(coveredByChecksum(start)).digest().equals(header.checksum))
      throw new BreachListError("it is damaged: its checksum is wrong");
    return createBreachList(file, header, { size, mtimeNs });
  } catch (error) {
    await file?.close();
    throw named(path, error);
  }
}

/** Verifies everything but the checksum. @throws {BreachListError} naming the file and the cause. */
export function readListHeader(path: string): ListHeader {
  let file: number | undefined;
  try {
    file = openSync(path, "r");
    const start = Buffer.alloc(HEADER_BYTES);
    const bytes = readSync(file, start, 0, HEADER_BYTES, 0);
    return decodeHeader(start.subarray(0, bytes), fstatSync(file).size);
  } catch (error) {
    throw named(path, error);
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function named(path: string, error: unknown): Error {
  if (error instanceof BreachListError)
    return new BreachListError(`${path} cannot be used: ${error.message}`, { cause: error });
  const code = (error as NodeJS.ErrnoException).code;
  if (code === undefined) return error as Error;
  return new BreachListError(`${path} cannot be read (${code})`, { cause: error });
}

/** @throws {BreachListError} if the file ends earlier. */
async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(length);
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(bytes, done, length - done, position + done);
    if (bytesRead === 0) throw new BreachListError("it became shorter while it was read");
    done += bytesRead;
  }
  return bytes;
}

function createBreachList(
  file: FileHandle,
  header: ListHeader,
  { size, mtimeNs }: { size: bigint; mtimeNs: bigint },
): BreachList {
  const running = new Set<Promise<boolean>>();
  const search = async (sha1: Buffer) => {
    const now = await file.stat({ bigint: true });
    if (now.size !== size || now.mtimeNs !== mtimeNs)
      throw new BreachListError("the breach list was changed in place: replace it by renaming a new file");
    return isInBucket(file, header, sha1);
  };
  return {
    header,
    contains(sha1) {
      const one = search(sha1).finally(() => running.delete(one));
      running.add(one);
      return one;
    },
    async close() {
      await Promise.allSettled(running);
      await file.close();
    },
  };
}

async function isInBucket(file: FileHandle, header: ListHeader, sha1: Buffer): Promise<boolean> {
  const { entries, bucketBits, largestBucket } = header;
  const [high, low] = [sha1.readUInt32BE(0), sha1.readUInt32BE(4)];
  const indexAt = indexStart(header) + bucketOf(bucketBits, high) * INDEX_ENTRY_BYTES;
  const index = await readAt(file, indexAt, 2 * INDEX_ENTRY_BYTES);
  const [first, end] = [index.readUInt32LE(0), index.readUInt32LE(INDEX_ENTRY_BYTES)];
  if (first > end || end > entries || end - first > largestBucket)
    throw new BreachListError("its index is wrong");
  const bucket = await readAt(file, HEADER_BYTES + first * REMAINDER_BYTES, (end - first) * REMAINDER_BYTES);
  const wanted = remainderOf(bucketBits, high, low);
  for (let at = 0; at < bucket.length; at += REMAINDER_BYTES) {
    if (bucket.readUInt32LE(at) === wanted) return true;
  }
  return false;
}
