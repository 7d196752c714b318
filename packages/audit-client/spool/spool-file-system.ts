import { constants, type FileHandle, mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";

export interface SpoolFile {
  /** Writes everything, but not durably. */
  write(bytes: Uint8Array, position: number): Promise<void>;
  read(position: number, length: number): Promise<Buffer>;
  datasync(): Promise<void>;
  truncate(length: number): Promise<void>;
  size(): Promise<number>;
  close(): Promise<void>;
}

export interface SpoolFileSystem {
  /** @throws if the file exists. */
  create(path: string): Promise<SpoolFile>;
  open(path: string): Promise<SpoolFile>;
  makeDirectory(path: string): Promise<void>;
  syncDirectory(path: string): Promise<void>;
  /** Recursive and relative. */
  list(path: string): Promise<string[]>;
  listDirectories(path: string): Promise<string[]>;
  rename(from: string, to: string): Promise<void>;
  /** Recursive. The path may be missing. */
  remove(path: string): Promise<void>;
}

const PRIVATE_FILE = 0o600;
const PRIVATE_DIRECTORY = 0o700;

export const nodeFileSystem: SpoolFileSystem = {
  create: async (path) => spoolFile(await open(path, "wx+", PRIVATE_FILE)),
  open: async (path) => spoolFile(await open(path, "r+")),
  async makeDirectory(path) {
    await mkdir(path, { recursive: true, mode: PRIVATE_DIRECTORY });
  },
  async syncDirectory(path) {
    const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  },
  async list(path) {
    return (await readdir(path, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`.slice(path.length + 1));
  },
  async listDirectories(path) {
    return (await readdir(path, { withFileTypes: true }))
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  },
  rename,
  remove: (path) => rm(path, { recursive: true, force: true }),
};

function spoolFile(handle: FileHandle): SpoolFile {
  return {
    async write(bytes, position) {
      for (let written = 0; written < bytes.length; ) {
        const { bytesWritten } = await handle.write(
          bytes,
          written,
          bytes.length - written,
          position + written,
        );
        written += bytesWritten;
      }
    },
    async read(position, length) {
      const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(length), 0, length, position);
      return buffer.subarray(0, bytesRead);
    },
    datasync: () => handle.datasync(),
    truncate: (length) => handle.truncate(length),
    size: async () => (await handle.stat()).size,
    close: () => handle.close(),
  };
}

const BLOCK_BYTES = 4_096;
/** A failing disk needs seconds for each bad block. */
const MAX_BAD_BLOCKS = 16;

/** Replaces bad blocks by zeros. @throws the file system's error after 16 bad blocks. */
export async function readAround(
  file: SpoolFile,
  position: number,
  length: number,
): Promise<{ bytes: Buffer; hasBadBlocks: boolean }> {
  try {
    return { bytes: await file.read(position, length), hasBadBlocks: false };
  } catch {
    return { bytes: await readBlocks(file, position, length), hasBadBlocks: true };
  }
}

async function readBlocks(file: SpoolFile, position: number, length: number): Promise<Buffer> {
  const blocks: Buffer[] = [];
  let badBlocks = 0;
  for (let at = position; at < position + length; ) {
    const end = Math.min(at - (at % BLOCK_BYTES) + BLOCK_BYTES, position + length);
    let block: Buffer;
    try {
      block = await file.read(at, end - at);
    } catch (error) {
      badBlocks += 1;
      if (badBlocks > MAX_BAD_BLOCKS) throw error;
      block = Buffer.alloc(end - at);
    }
    blocks.push(block);
    if (block.length < end - at) break;
    at = end;
  }
  return Buffer.concat(blocks);
}

const SUFFIX = ".damaged";

/** The dot prevents a takeover of the directory. */
export const DAMAGED_DIRECTORY = ".damaged";

export async function discardFile(
  files: SpoolFileSystem,
  { path, isDamaged = false }: { path: string; isDamaged?: boolean | undefined },
  damagedDirectory: string,
): Promise<void> {
  if (isDamaged) await setAside(files, path, damagedDirectory);
  else await files.remove(path);
}

export async function setAside(
  files: SpoolFileSystem,
  path: string,
  damagedDirectory: string,
): Promise<void> {
  await files.makeDirectory(damagedDirectory);
  const name = basename(path, SUFFIX);
  await files.rename(path, join(damagedDirectory, `${name}${SUFFIX}`));
}

export function isSetAside(path: string): boolean {
  return path.endsWith(SUFFIX);
}
