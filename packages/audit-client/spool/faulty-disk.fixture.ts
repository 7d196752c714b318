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
export interface FaultyDisk extends SpoolFileSystem {
  files: Map<string, Content>;
  /** A larger write is truncated and fails with ENOSPC. */
  capacityBytes: number;
  /** Error codes. */
  failing: Map<Operation, string>;
  /** Offsets by path. */
  badBytes: Map<string, readonly number[]>;
  syncs: number;
  openFiles: number;
  /** @param torn Returns how many of the unsynced bytes survive. */
  crash(torn?: (bytes: number) => number): void;
}

export function faultyDisk(): FaultyDisk {
  const files = new Map<string, Content>();
  const durableNames = new Set<string>();
  const used = () => [...files.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);
  const check = (operation: Operation) => {
    const code = disk.failing.get(operation);
    if (code !== undefined) throw Object.assign(new Error(`${code}: ${operation}`), { code });
  };

  const fileOf = (path: string, content: Content): SpoolFile => {
    disk.openFiles += 1;
    return fileWith(path, content);
  };
  const fileWith = (path: string, content: Content): SpoolFile => ({
    async write(bytes, position) {
      check("write");
      const free = disk.capacityBytes - used();
      const growth = Math.max(0, position + bytes.length - content.bytes.length);
      const fitting = growth <= free ? bytes.length : Math.max(0, bytes.length - (growth - free));
      const end = position + fitting;
      const grown = Buffer.alloc(Math.max(content.bytes.length, end));
      content.bytes.copy(grown);
      grown.set(bytes.subarray(0, fitting), position);
      content.bytes = grown;
      if (fitting < bytes.length) throw Object.assign(new Error("ENOSPC: write"), { code: "ENOSPC" });
    },
    async read(position, length) {
      check("read");
      const isBad = disk.badBytes.get(path)?.some((at) => at >= position && at < position + length);
      if (isBad === true) throw Object.assign(new Error("EIO: read"), { code: "EIO" });
      return content.bytes.subarray(position, position + length);
    },
    async datasync() {
      disk.syncs += 1;
      if (disk.failing.has("datasync")) content.isPoisoned = true;
      check("datasync");
      if (!content.isPoisoned) content.durable = Buffer.from(content.bytes);
    },
    async truncate(length) {
      content.bytes = content.bytes.subarray(0, length);
      content.durable = content.durable.subarray(0, length);
    },
    size: async () => content.bytes.length,
    async close() {
      disk.openFiles -= 1;
    },
  });

  const disk: FaultyDisk = {
    files,
    capacityBytes: Number.POSITIVE_INFINITY,
    failing: new Map(),
    badBytes: new Map(),
    syncs: 0,
    openFiles: 0,
    async create(path) {
      check("create");
      if (files.has(path)) throw Object.assign(new Error("EEXIST"), { code: "EEXIST" });
      const content = { bytes: Buffer.alloc(0), durable: Buffer.alloc(0), isPoisoned: false };
      files.set(path, content);
      return fileOf(path, content);
    },
    async open(path) {
      const content = files.get(path);
      if (content === undefined) throw Object.assign(new Error("ENOENT"), { code: "ENOENT" });
      return fileOf(path, content);
    },
    makeDirectory: async () => undefined,
    async syncDirectory(path) {
      check("syncDirectory");
      for (const name of files.keys()) if (dirname(name) === path) durableNames.add(name);
    },
    list: async (path) =>
      [...files.keys()]
        .filter((name) => name.startsWith(`${path}/`))
        .map((name) => name.slice(path.length + 1)),
    listDirectories: async () => [],
    async rename(from, to) {
      const content = files.get(from);
      if (content === undefined) throw Object.assign(new Error("ENOENT"), { code: "ENOENT" });
      files.delete(from);
      files.set(to, content);
    },
    async remove(path) {
      check("remove");
      files.delete(path);
    },
    crash(torn = () => 0) {
      for (const [name, content] of files) {
        if (!durableNames.has(name)) {
          files.delete(name);
          continue;
        }
        const from = content.durable.length;
        const stays = content.bytes.subarray(from, from + torn(content.bytes.length - from));
        content.bytes = Buffer.concat([content.durable, stays]);
        content.durable = content.bytes;
      }
    },
  };
  return disk;
}
