import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Records of one length, in order. After one block they are in a file. */
export class Spool {
  readonly #recordBytes: number;
  readonly #blockBytes: number;
  readonly #tail: Buffer;
  #tailBytes = 0;
  #file: { descriptor: number; folder: string; bytes: number } | undefined;
  #block: Buffer | undefined;
  #readBytes = 0;

  /** @param blockRecords that are in memory. */
  constructor(recordBytes: number, blockRecords: number) {
    this.#recordBytes = recordBytes;
    this.#blockBytes = recordBytes * blockRecords;
    this.#tail = Buffer.allocUnsafe(this.#blockBytes);
  }

  append(record: Buffer): void {
    if (this.#tailBytes === this.#blockBytes) this.#flush();
    record.copy(this.#tail, this.#tailBytes);
    this.#tailBytes += this.#recordBytes;
  }

  /** `append` must not follow. */
  next(): Buffer {
    const start = this.#readBytes % this.#blockBytes;
    if (start === 0) this.#block = this.#readBlock();
    this.#readBytes += this.#recordBytes;
    const record = this.#block?.subarray(start, start + this.#recordBytes);
    if (record?.length !== this.#recordBytes) throw new RangeError("the spool has no further record");
    return record;
  }

  close(): void {
    if (this.#file === undefined) return;
    closeSync(this.#file.descriptor);
    rmSync(this.#file.folder, { recursive: true, force: true });
    this.#file = undefined;
  }

  #flush(): void {
    this.#file ??= openTemporary();
    writeFileSync(this.#file.descriptor, this.#tail);
    this.#file.bytes += this.#blockBytes;
    this.#tailBytes = 0;
  }

  #readBlock(): Buffer {
    const inFile = this.#file?.bytes ?? 0;
    if (this.#file === undefined || this.#readBytes >= inFile)
      return this.#tail.subarray(this.#readBytes - inFile, this.#tailBytes);
    const block = Buffer.allocUnsafe(this.#blockBytes);
    const read = readSync(this.#file.descriptor, block, 0, this.#blockBytes, this.#readBytes);
    return block.subarray(0, read);
  }
}

function openTemporary() {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-audit-verify-"));
  return { descriptor: openSync(join(folder, "records"), "wx+", 0o600), folder, bytes: 0 };
}
