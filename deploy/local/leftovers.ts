import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { promisify } from "node:util";
import { LaunchError } from "./launch-error.ts";
import { untilNone } from "./poll.ts";

const run = promisify(execFile);

/** Processes without their launcher end by themselves within this time. */
const GRACE_MS = 5_000;
const KILL_TIMEOUT_MS = 2_000;

/** The same for every path of the directory. It is an argument of each process, so that the next launcher finds leftovers. */
export async function directoryName(path: string): Promise<string> {
  const { dev, ino } = await stat(path, { bigint: true });
  return `gatehouse-${createHash("sha256").update(`${dev}:${ino}`).digest("hex").slice(0, 24)}`;
}

/** Waits for processes with this argument, then kills them. @throws {LaunchError} if they do not end. */
export async function endLeftovers(name: string, graceMs = GRACE_MS): Promise<void> {
  const processes = () => processesNamed(name);
  for (const pid of (await untilNone(processes, graceMs)) ?? []) kill(pid);
  const left = await untilNone(processes, KILL_TIMEOUT_MS);
  if (left) throw new LaunchError(`Processes of an earlier start did not end: ${left.join(", ")}.`);
}

async function processesNamed(name: string): Promise<number[] | undefined> {
  const found = (await commandLines()).filter((line) => line.includes(name));
  return found.length === 0 ? undefined : found.map((line) => Number.parseInt(line, 10));
}

/** Process ids and arguments. In a container, root may read nothing else of other users' processes. */
async function commandLines(): Promise<string[]> {
  if (process.platform !== "linux") {
    return (await run("ps", ["-Axww", "-o", "pid=,command="])).stdout.split("\n");
  }
  const pids = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry));
  const commandOf = (pid: string) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return Promise.all(pids.map(async (pid) => `${pid} ${await commandOf(pid)}`));
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended already.
  }
}
