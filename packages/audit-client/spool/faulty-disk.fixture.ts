import { dirname } from "node:path";
import type { SpoolFile, SpoolFileSystem } from "./spool-file-system.ts";

interface Content {
  bytes: Buffer;
  durable: Buffer;
  /** After a failed fsync, earlier writes never become durable. */
  isPoisoned: boolean;
}

type Operation = "create" | "write" | "datasync" | "syncDirectory" | "read" | "remove";

/** A disk in memory that loses unsynced writes in a crash. */
export class FaultyDisk implements SpoolFileSystem {
  readonly files = new Map<string, Content>();
  readonly #durableNames = new Set<string>();
  /** A larger write is truncated and fails with ENOSPC. */
  capacityBytes = Number.POSITIVE_INFINITY;
  /** Error codes. */
  readonly failing = new Map<Operation, string>();
  /** Offsets by path. */
  readonly badBytes = new Map<string, readonly number[]>();
  syncs = 0;
  openFiles = 0;

  get freeBytes(): number {
    return [...this.files.values()].reduce((free, { bytes }) => free - bytes.length, this.capacityBytes);
  }

  async create(path: string): Promise<SpoolFile> {
    this.check("create");
    if (this.files.has(path)) throw failure("EEXIST", "create");
    const content = { bytes: Buffer.alloc(0), durable: Buffer.alloc(0), isPoisoned: false };
    this.files.set(path, content);
    return new FaultyFile(this, path, content);
  }

  async open(path: string): Promise<SpoolFile> {
    return new FaultyFile(this, path, this.#contentOf(path));
  }

  async makeDirectory(): Promise<void> {}

  async syncDirectory(path: string): Promise<void> {
    this.check("syncDirectory");
    for (const name of this.files.keys()) if (dirname(name) === path) this.#durableNames.add(name);
  }

  async list(path: string): Promise<string[]> {
    return [...this.files.keys()]
      .filter((name) => name.startsWith(`${path}/`))
      .map((name) => name.slice(path.length + 1));
  }

  async listDirectories(): Promise<string[]> {
    return [];
  }

  async rename(from: string, to: string): Promise<void> {
    const content = this.#contentOf(from);
    this.files.delete(from);
    this.files.set(to, content);
  }

  async remove(path: string): Promise<void> {
    this.check("remove");
    this.files.delete(path);
  }

  /** @param torn Returns how many of the unsynced bytes survive. */
  crash(torn: (bytes: number) => number = () => 0): void {
    for (const [name, content] of this.files) {
      if (!this.#durableNames.has(name)) {
        this.files.delete(name);
        continue;
      }
      const from = content.durable.length;
      const stays = content.bytes.subarray(from, from + torn(content.bytes.length - from));
      content.bytes = Buffer.concat([content.durable, stays]);
      content.durable = content.bytes;
    }
  }

  /** @throws if the operation is to fail. */
  check(operation: Operation): void {
    const code = this.failing.get(operation);
    if (code !== undefined) throw failure(code, operation);
  }

  #contentOf(path: string): Content {
    const content = this.files.get(path);
    if (content === undefined) throw failure("ENOENT", path);
    return content;
  }
}

class FaultyFile implements SpoolFile {
  readonly #disk: FaultyDisk;
  readonly #path: string;
  readonly #content: Content;

  constructor(disk: FaultyDisk, path: string, content: Content) {
    this.#disk = disk;
    this.#path = path;
    this.#content = content;
    disk.openFiles += 1;
  }

  async write(bytes: Uint8Array, position: number): Promise<void> {
    this.#disk.check("write");
    const content = this.#content;
    const free = this.#disk.freeBytes;
    const growth = Math.max(0, position + bytes.length - content.bytes.length);
    const fitting = growth <= free ? bytes.length : Math.max(0, bytes.length - (growth - free));
    const end = position + fitting;
    const grown = Buffer.alloc(Math.max(content.bytes.length, end));
    content.bytes.copy(grown);
    grown.set(bytes.subarray(0, fitting), position);
    content.bytes = grown;
    if (fitting < bytes.length) throw failure("ENOSPC", "write");
  }

  async read(position: number, length: number): Promise<Buffer> {
    this.#disk.check("read");
    const isBad = this.#disk.badBytes.get(this.#path)?.some((at) => at >= position && at < position + length);
    if (isBad === true) throw failure("EIO", "read");
    return this.#content.bytes.subarray(position, position + length);
  }

  async datasync(): Promise<void> {
    const content = this.#content;
    this.#disk.syncs += 1;
    if (this.#disk.failing.has("datasync")) content.isPoisoned = true;
    this.#disk.check("datasync");
    if (!content.isPoisoned) content.durable = Buffer.from(content.bytes);
  }

  async truncate(length: number): Promise<void> {
    this.#content.bytes = this.#content.bytes.subarray(0, length);
    this.#content.durable = this.#content.durable.subarray(0, length);
  }

  async size(): Promise<number> {
    return this.#content.bytes.length;
  }

  async close(): Promise<void> {
    this.#disk.openFiles -= 1;
  }
}

function failure(code: string, what: string): Error {
  return Object.assign(new Error(`${code}: ${what}`), { code });
}
