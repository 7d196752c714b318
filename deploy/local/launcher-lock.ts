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
const NOBODY = "nobody";

export interface LauncherLock {
  /** A waiting launcher then waits longer. */
  announceStop(): void;
  release(): void;
}

export class LockHeldError extends LaunchError {}

/**
 * A listening socket, which the kernel closes with the process.
 * @param graceMs wait for a holder that is not stopping. @throws {LockHeldError}
 */
export async function takeLauncherLock(directory: string, graceMs = RUNNING_GRACE_MS): Promise<LauncherLock> {
  return takeLock(await addressOf(directory), graceMs, `already runs on ${directory}`);
}

/** Of the one process that makes a detached start. @throws {LockHeldError} */
export async function takeStarterLock(directory: string): Promise<LauncherLock> {
  return takeLock(await addressOf(directory, "-start"), 0, `is being started on ${directory}`);
}

async function takeLock(address: string, graceMs: number, held: string): Promise<LauncherLock> {
  let state = `process ${process.pid}`;
  const server = createServer((socket) => socket.on("error", () => socket.destroy()).end(state));
  server.unref();
  const startedAt = performance.now();
  while (!(await listens(server, address))) {
    const holder = await askHolder(address);
    const waitMs = holder.endsWith(STOPPING) ? STOPPING_GRACE_MS : graceMs;
    if (performance.now() - startedAt > waitMs) {
      throw new LockHeldError(`Gatehouse ${held} (${holder}): stop it first, or set GATEHOUSE_HOME.`);
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

/** Undefined if no launcher runs. Anybody may have taken the lock's name, so its process id is not to be trusted alone. */
export async function launcherState(
  directory: string,
): Promise<{ pid: number; isStopping: boolean } | undefined> {
  const holder = await askHolder(await addressOf(directory));
  if (holder === NOBODY) return undefined;
  const [, pid = "0"] = /^process (\d+)/.exec(holder) ?? [];
  return { pid: Number(pid), isStopping: holder.endsWith(STOPPING) };
}

async function addressOf(directory: string, purpose = ""): Promise<string> {
  const name = (await directoryName(directory)) + purpose;
  // Linux' abstract namespace leaves no file behind.
  return process.platform === "linux" ? `\0${name}` : join(tmpdir(), `${name}.sock`);
}

async function listens(server: Server, address: string): Promise<boolean> {
  try {
    await once(server.listen(address), "listening");
    return true;
  } catch (error) {
    if (errorCode(error) === "EADDRINUSE") return false;
    throw error;
  }
}

async function askHolder(address: string): Promise<string> {
  const socket = createConnection(address);
  socket.setTimeout(1_000, () => socket.destroy(new Error("no answer")));
  try {
    return await text(socket);
  } catch (error) {
    // Outside Linux a killed launcher leaves the socket's file behind.
    if (errorCode(error) === "ECONNREFUSED" && !address.startsWith("\0")) await rm(address, { force: true });
    return ["ECONNREFUSED", "ENOENT"].includes(errorCode(error) ?? "") ? NOBODY : "no answer";
  }
}
