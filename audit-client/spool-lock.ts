import { once } from "node:events";
import { type FileHandle, open } from "node:fs/promises";
import { createConnection, createServer } from "node:net";
import { join } from "node:path";

const NAME = "lock";
const CONNECT_TIMEOUT_MS = 1_000;
/** A path of a socket may be no longer (`sun_path`, less on macOS than on Linux). */
const MAX_SOCKET_PATH_BYTES = 103;

/**
 * Marks a directory as belonging to a process that lives. Held as a listening UNIX socket in it, because Node has no
 * `flock`: the kernel drops it with the process, also after a `kill -9`; it holds while the process is stopped; and it
 * works between containers that share the volume, where process ids mean nothing. Not between machines.
 */
export interface SpoolLock {
  release(): Promise<void>;
}

/** @param directory nobody else knows of it yet. */
export async function lockDirectory(directory: string): Promise<SpoolLock> {
  const server = createServer((socket) => socket.on("error", () => socket.destroy()).end());
  server.unref();
  await withSocketPath(directory, async (path) => {
    server.listen(path);
    await once(server, "listening");
  });
  return { release: () => new Promise((resolve) => server.close(() => resolve())) };
}

/** Whether the process that has locked a directory lives. In doubt it does. */
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

/** On Linux the path leads over an open directory: so it is short, however deep the directory lies. */
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
    // It was taken over and is gone: nobody to be in the way of.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return use(join(directory, NAME));
    throw error;
  }
  try {
    return await use(`/proc/self/fd/${handle.fd}/${NAME}`);
  } finally {
    await handle.close();
  }
}
