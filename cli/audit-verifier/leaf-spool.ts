import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HASH_BYTES } from "./merkle.ts";

/** 32,768 hashes. */
const BLOCK_BYTES = 1024 * 1024;

/** Keeps leaf hashes until the first checkpoint. After one block they are in a file, 32 MB per million entries. */
export class LeafSpool {
  readonly #tail = Buffer.allocUnsafe(BLOCK_BYTES);
  #tailBytes = 0;
  #file: { descriptor: number; folder: string; bytes: number } | undefined;
  #block: Buffer | undefined;
  #readBytes = 0;

  append(hash: Buffer): void {
    if (this.#tailBytes === BLOCK_BYTES) this.#flush();
    hash.copy(this.#tail, this.#tailBytes);
    this.#tailBytes += HASH_BYTES;
  }

  /** `append` must not follow. */
  next(): Buffer {
    const start = this.#readBytes % BLOCK_BYTES;
    if (start === 0) this.#block = this.#readBlock();
    this.#readBytes += HASH_BYTES;
    const hash = this.#block?.subarray(start, start + HASH_BYTES);
    if (hash?.length !== HASH_BYTES) throw new RangeError("the spool has no further hash");
    return hash;
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
    this.#file.bytes += BLOCK_BYTES;
    this.#tailBytes = 0;
  }

  #readBlock(): Buffer {
    const inFile = this.#file?.bytes ?? 0;
    if (this.#file === undefined || this.#readBytes >= inFile)
      return this.#tail.subarray(this.#readBytes - inFile, this.#tailBytes);
    const block = Buffer.allocUnsafe(BLOCK_BYTES);
    const read = readSync(this.#file.descriptor, block, 0, BLOCK_BYTES, this.#readBytes);
    return block.subarray(0, read);
  }
}

function openTemporary() {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-audit-verify-"));
  return { descriptor: openSync(join(folder, "leaves"), "wx+", 0o600), folder, bytes: 0 };
}
