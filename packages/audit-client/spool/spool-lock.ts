import { once } from "node:events";
import { type FileHandle, open } from "node:fs/promises";
import { createConnection, createServer } from "node:net";
import { join } from "node:path";

const NAME = "lock";
const CONNECT_TIMEOUT_MS = 1_000;
/** Limit of `sun_path` on macOS. */
const MAX_SOCKET_PATH_BYTES = 103;

/** A listening UNIX socket, because Node has no `flock`. Works between containers that share a volume, not between machines. */
export interface SpoolLock {
  release(): Promise<void>;
}

/** @param directory Must not be visible to other processes yet. */
export async function lockDirectory(directory: string): Promise<SpoolLock> {
  const server = createServer((socket) => socket.on("error", () => socket.destroy()).end());
  server.unref();
  await withSocketPath(directory, async (path) => {
    server.listen(path);
    await once(server, "listening");
  });
  return { release: () => new Promise((resolve) => server.close(() => resolve())) };
}

/** Returns true in doubt. */
export async function isLocked(directory: string): Promise<boolean> {
  return withSocketPath(directory, async (path) => {
    const socket = createConnection(path);
    socket.setTimeout(CONNECT_TIMEOUT_MS, () => socket.destroy(new Error("no answer")));
    try {
      await once(socket, "connect");
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      return code !== "ECONNREFUSED" && code !== "ENOENT";
    } finally {
      socket.destroy();
    }
  });
}

/** On Linux this path is always short. */
async function withSocketPath<T>(directory: string, use: (path: string) => Promise<T>): Promise<T> {
  if (process.platform !== "linux") {
    const path = join(directory, NAME);
    if (Buffer.byteLength(path) > MAX_SOCKET_PATH_BYTES) throw new Error(`${path} is too long for a socket`);
    return use(path);
  }
  let handle: FileHandle;
  try {
    handle = await open(directory);
  } catch (error) {
    // The directory was taken over.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return use(join(directory, NAME));
    throw error;
  }
  try {
    return await use(`/proc/self/fd/${handle.fd}/${NAME}`);
  } finally {
    await handle.close();
  }
}
