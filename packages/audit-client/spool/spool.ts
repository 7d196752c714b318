import { join } from "node:path";
import { discardFile, type SpoolFileSystem } from "./spool-file-system.ts";
import { encodeFileHeader, encodeRecord, FILE_HEADER_BYTES, type SpoolRecord } from "./spool-record.ts";
import { readRecords, type SpoolSegment } from "./spool-segment.ts";

export interface SpoolDeps {
  files: SpoolFileSystem;
  /** Must have no other writer. */
  directory: string;
  damagedDirectory: string;
  producerId: string;
  /** Includes `bytesOfOthers`. */
  maxBytes: number;
  bytesOfOthers: () => number;
  onDamage: (path: string, fromSequence: number, toSequence: number) => void;
  segmentBytes?: number;
}

const SEGMENT_BYTES = 8 * 1024 * 1024;

/** Only one `append` may run at a time. */
export class Spool {
  readonly #deps: SpoolDeps;
  readonly #segmentBytes: number;
  /** Oldest first. */
  #segments: SpoolSegment[] = [];
  #open: SpoolSegment | undefined;
  #appending: SpoolSegment | undefined;
  #files = 0;
  /** Serializes reads and removals. */
  #turn: Promise<unknown> = Promise.resolve();
  #cursor: { segment: SpoolSegment; position: number; sequence: number } | undefined;

  constructor(deps: SpoolDeps) {
    this.#deps = deps;
    this.#segmentBytes = deps.segmentBytes ?? SEGMENT_BYTES;
  }

  get bytes(): number {
    return this.#segments.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  get freeBytes(): number {
    return this.#deps.maxBytes - this.bytes - this.#deps.bytesOfOthers() - FILE_HEADER_BYTES;
  }

  /**
   * Sequences must continue the last append.
   * @throws the file system's error. The file gets no more records: its state is unknown after a failed fsync
   * (https://wiki.postgresql.org/wiki/Fsync_Errors).
   */
  async append(records: readonly SpoolRecord[]): Promise<void> {
    const first = records[0]?.sequence;
    const last = records.at(-1)?.sequence;
    if (first === undefined || last === undefined) return;
    const bytes = Buffer.concat(records.map(encodeRecord));
    if (bytes.length > this.freeBytes) throw new Error("the spool is full");
    const segment = this.#open ?? (await this.#create(first));
    this.#appending = segment;
    try {
      await segment.file.write(bytes, segment.bytes);
      await segment.file.datasync();
    } catch (error) {
      this.#open = undefined;
      await this.#cut(segment);
      throw error;
    } finally {
      this.#appending = undefined;
    }
    segment.bytes += bytes.length;
    segment.lastSequence = last;
    if (!this.#segments.includes(segment)) this.#segments.push(segment);
    this.#open = segment.bytes < this.#segmentBytes ? segment : undefined;
  }

  /** The records are consecutive, and start later after damage. */
  read(sequence: number, limit: number): Promise<SpoolRecord[]> {
    return this.#inTurn(async () => {
      for (let from = sequence; ; ) {
        const segment = this.#segments.find(({ lastSequence }) => lastSequence >= from);
        if (segment === undefined) return [];
        // Later files may be intact.
        const records = await this.#readSegment(segment, from, limit).catch(() => []);
        const next = records[0]?.sequence ?? segment.lastSequence + 1;
        const lost = Math.max(from, segment.firstSequence);
        if (next > lost) this.#onDamage(segment, lost, next - 1);
        if (records.length > 0) return records;
        from = next;
      }
    });
  }

  #onDamage(segment: SpoolSegment, fromSequence: number, toSequence: number): void {
    segment.isDamaged = true;
    this.#deps.onDamage(segment.path, fromSequence, toSequence);
  }

  async release(sequence: number): Promise<void> {
    const isDone = (segment: SpoolSegment) => segment.lastSequence <= sequence && segment !== this.#appending;
    const released = this.#segments.filter(isDone);
    if (released.length === 0) return;
    this.#segments = this.#segments.filter((segment) => !released.includes(segment));
    if (this.#open !== undefined && released.includes(this.#open)) this.#open = undefined;
    await this.#inTurn(async () => {
      for (const segment of released) await this.#discard(segment);
    });
  }

  async close(): Promise<void> {
    await this.#inTurn(async () => {
      for (const { file } of this.#segments) await file.close();
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => undefined);
    return result;
  }

  async #discard(segment: SpoolSegment): Promise<void> {
    const { files, damagedDirectory } = this.#deps;
    await segment.file.close();
    await discardFile(files, segment, damagedDirectory);
  }

  async #readSegment(segment: SpoolSegment, from: number, limit: number): Promise<SpoolRecord[]> {
    const to = segment.bytes;
    const resumes = this.#cursor?.segment === segment && this.#cursor.sequence <= from;
    let position = resumes ? (this.#cursor?.position ?? 0) : FILE_HEADER_BYTES;
    for (;;) {
      const { records, nextPosition } = await readRecords(segment, { from: position, to }, limit);
      const last = records.at(-1);
      if (last === undefined) return [];
      position = nextPosition;
      this.#cursor = { segment, position, sequence: last.sequence + 1 };
      const wanted = records.filter(({ sequence }) => sequence >= from);
      if (wanted.length > 0) return wanted;
    }
  }

  async #create(firstSequence: number): Promise<SpoolSegment> {
    const { files, directory, producerId } = this.#deps;
    this.#files += 1;
    const path = join(directory, `${producerId}-${String(this.#files).padStart(6, "0")}.spool`);
    const file = await files.create(path);
    try {
      await file.write(encodeFileHeader(producerId), 0);
      await files.syncDirectory(directory);
    } catch (error) {
      await file.close().catch(() => undefined);
      await files.remove(path).catch(() => undefined);
      throw error;
    }
    return {
      path,
      file,
      producerId,
      firstSequence,
      lastSequence: firstSequence - 1,
      bytes: FILE_HEADER_BYTES,
    };
  }

  async #cut(segment: SpoolSegment): Promise<void> {
    const { files } = this.#deps;
    try {
      if (this.#segments.includes(segment)) {
        await segment.file.truncate(segment.bytes);
      } else {
        await segment.file.close();
        await files.remove(segment.path);
      }
    } catch {
      // The first error is reported.
    }
  }
}
