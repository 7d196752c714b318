import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { promisify } from "node:util";
import { LaunchError } from "./launch-error.ts";
import { untilNone } from "./poll.ts";

const run = promisify(execFile);

/** What a launcher starts ends by itself, in order, when that launcher is gone; after this it is ended by force. */
const GRACE_MS = 5_000;
const KILL_TIMEOUT_MS = 2_000;

/**
 * A name for a directory, the same for every spelling of its path. Whatever a launcher starts has the name of its home
 * among its arguments: that is how the next one finds what a killed one has left.
 */
export async function directoryName(path: string): Promise<string> {
  const { dev, ino } = await stat(path, { bigint: true });
  return `gatehouse-${createHash("sha256").update(`${dev}:${ino}`).digest("hex").slice(0, 24)}`;
}

/**
 * Waits until all processes with `name` among their arguments have ended, and ends them by force after a while.
 *
 * @throws {LaunchError} if they do not end.
 */
export async function endLeftovers(name: string, graceMs = GRACE_MS): Promise<void> {
  const processes = () => processesNamed(name);
  for (const pid of (await untilNone(processes, graceMs)) ?? []) kill(pid);
  const left = await untilNone(processes, KILL_TIMEOUT_MS);
  if (left) throw new LaunchError(`Processes of an earlier start do not end: ${left.join(", ")}.`);
}

/** The ids of these processes, if there are any. */
async function processesNamed(name: string): Promise<number[] | undefined> {
  const found = (await commandLines()).filter((line) => line.includes(name));
  return found.length === 0 ? undefined : found.map((line) => Number.parseInt(line, 10));
}

/** Process ids, each with its arguments. Of another user's process, root in a container may read nothing else. */
async function commandLines(): Promise<string[]> {
  if (process.platform !== "linux") {
    return (await run("ps", ["-Axww", "-o", "pid=,command="])).stdout.split("\n");
  }
  const pids = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry));
  const commandOf = (pid: string) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => ""); // ended meanwhile
  return Promise.all(pids.map(async (pid) => `${pid} ${await commandOf(pid)}`));
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended meanwhile.
  }
}
