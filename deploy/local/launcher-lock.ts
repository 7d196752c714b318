import { createHash } from "node:crypto";
import { once } from "node:events";
import { stat, unlink } from "node:fs/promises";
import { createConnection, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { errorCode, LaunchError } from "./launch-error.ts";

const RUNNING_GRACE_MS = 2_000;
const STOPPING_GRACE_MS = 12_000;

const holderSchema = z.object({ pid: z.number().int(), stopping: z.boolean() });

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
  const address = await lockAddress(directory);
  const startedAt = performance.now();
  for (;;) {
    const state = { pid: process.pid, stopping: false };
    const announceStop = () => {
      state.stopping = true;
    };
    const server = await listen(address, state);
    if (server) return { announceStop, release: () => void server.close() };
    const holder = await askHolder(address);
    const waitMs = holder?.stopping ? STOPPING_GRACE_MS : graceMs;
    if (performance.now() - startedAt > waitMs) {
      const who = holder ? ` (process ${holder.pid})` : "";
      throw new LockHeldError(
        `Gatehouse already runs on ${directory}${who}: stop it first, or set GATEHOUSE_HOME.`,
      );
    }
    await sleep(100);
  }
}

/** Named after the directory's inode: its path may be longer than a socket's may be, or have several spellings. */
async function lockAddress(directory: string): Promise<string> {
  const { dev, ino } = await stat(directory, { bigint: true });
  const name = `gatehouse-${createHash("sha256").update(`${dev}:${ino}`).digest("hex").slice(0, 24)}`;
  // A leading NUL is Linux' abstract namespace: no file to leave behind.
  return process.platform === "linux" ? `\0${name}` : join(tmpdir(), `${name}.sock`);
}

/** The listening server, or undefined if the address is in use. */
async function listen(address: string, state: z.infer<typeof holderSchema>): Promise<Server | undefined> {
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.end(JSON.stringify(state));
  });
  // Held for the process's whole life, but never what keeps it alive.
  server.unref();
  server.listen(address);
  try {
    await once(server, "listening");
    return server;
  } catch (error) {
    if (errorCode(error) === "EADDRINUSE") return undefined;
    throw error;
  }
}

async function askHolder(address: string): Promise<z.infer<typeof holderSchema> | undefined> {
  const socket = createConnection(address);
  socket.setTimeout(1_000, () => socket.destroy());
  try {
    return holderSchema.parse(JSON.parse(await text(socket)));
  } catch (error) {
    // Outside Linux the socket is a file, which outlives a killed launcher.
    if (errorCode(error) === "ECONNREFUSED" && !address.startsWith("\0"))
      await unlink(address).catch(() => {});
    return undefined;
  }
}
