import { once } from "node:events";
import { rm } from "node:fs/promises";
import { createConnection, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { errorCode, LaunchError } from "./launch-error.ts";
import { directoryName } from "./leftovers.ts";

const RUNNING_GRACE_MS = 2_000;
const STOPPING_GRACE_MS = 12_000;
const STOPPING = ", which is stopping";

/** The right to run on a home. It ends with its process, however that ends. */
export interface LauncherLock {
  /** Tells a launcher that waits for this home that it will be free soon. */
  announceStop(): void;
  release(): void;
}

/** Thrown when another process holds the lock. */
export class LockHeldError extends LaunchError {}

/**
 * Takes the lock of a directory. Held as a listening socket: the kernel drops it with the process, so nothing stale
 * can stay behind. Waits for a holder which is just stopping.
 *
 * @param graceMs how long to wait for a holder that does not say it is stopping.
 * @throws {LockHeldError} if another process holds it.
 */
export async function takeLauncherLock(directory: string, graceMs = RUNNING_GRACE_MS): Promise<LauncherLock> {
  const name = await directoryName(directory);
  // A leading NUL is Linux' abstract namespace: no file to leave behind.
  const address = process.platform === "linux" ? `\0${name}` : join(tmpdir(), `${name}.sock`);
  let state = `process ${process.pid}`;
  const server = createServer((socket) => socket.on("error", () => socket.destroy()).end(state));
  server.unref(); // held for the process's whole life, but never what keeps it alive
  const startedAt = performance.now();
  while (!(await listens(server, address))) {
    const holder = await askHolder(address);
    const waitMs = holder.endsWith(STOPPING) ? STOPPING_GRACE_MS : graceMs;
    if (performance.now() - startedAt > waitMs) {
      throw new LockHeldError(
        `Gatehouse already runs on ${directory} (${holder}): stop it first, or set GATEHOUSE_HOME.`,
      );
    }
    await sleep(100);
  }
  return {
    announceStop() {
      state += STOPPING;
    },
    release: () => void server.close(),
  };
}

/** False if the address is in use. */
async function listens(server: Server, address: string): Promise<boolean> {
  try {
    await once(server.listen(address), "listening");
    return true;
  } catch (error) {
    if (errorCode(error) === "EADDRINUSE") return false;
    throw error;
  }
}

/** What the holder says of itself. */
async function askHolder(address: string): Promise<string> {
  const socket = createConnection(address);
  socket.setTimeout(1_000, () => socket.destroy(new Error("no answer")));
  try {
    return await text(socket);
  } catch (error) {
    // Outside Linux the socket is a file, which outlives a killed launcher.
    if (errorCode(error) === "ECONNREFUSED" && !address.startsWith("\0")) await rm(address, { force: true });
    return "it does not answer";
  }
}
