import { constants, type FileHandle, mkdir, open, readdir, rename, rm } from "node:fs/promises";

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
