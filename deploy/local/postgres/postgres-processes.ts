import { execFile } from "node:child_process";
import { readdir, readFile, readlink, rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { LaunchError } from "../launch-error.ts";

const run = promisify(execFile);

/** How long each signal may take, in order. SIGINT is a fast shutdown, SIGQUIT an immediate one; both lose nothing. */
const STEPS = [
  { signal: "SIGINT", waitMs: 5_000 },
  { signal: "SIGQUIT", waitMs: 3_000 },
  { signal: "SIGKILL", waitMs: 2_000 },
] as const;

/**
 * Ends a PostgreSQL which still serves `dataDirectory`, left behind by a killed launcher, and removes a
 * `postmaster.pid` that would stop the next one only because its process id has been given to another program.
 *
 * @throws {LaunchError} if it does not end.
 */
export async function stopLeftoverPostgres(dataDirectory: string): Promise<void> {
  const recorded = await recordedPid(dataDirectory);
  let left = await serving(dataDirectory, recorded);
  for (const { signal, waitMs } of STEPS) {
    const deadline = performance.now() + waitMs;
    // To the postmaster, which ends its processes in order; without it (killed alone), to what is left of them.
    const targets =
      recorded !== undefined && left.includes(recorded) && signal !== "SIGKILL" ? [recorded] : left;
    for (const pid of targets) send(pid, signal);
    while (left.length > 0 && performance.now() < deadline) {
      await sleep(50);
      left = await serving(dataDirectory, recorded);
    }
  }
  if (left.length > 0)
    throw new LaunchError(`PostgreSQL of an earlier start does not end: process ${left.join(", ")}.`);
  // A dead process's file stays: PostgreSQL itself then also looks for shared memory still in use.
  if (recorded !== undefined && isAlive(recorded))
    await rm(join(dataDirectory, "postmaster.pid"), { force: true });
}

/** Process ids of all PostgreSQL processes that work in a data directory, the postmaster's among them. */
async function serving(dataDirectory: string, recorded: number | undefined): Promise<number[]> {
  if (process.platform !== "linux") {
    return recorded !== undefined && (await looksLikePostgres(recorded, dataDirectory)) ? [recorded] : [];
  }
  const goal = await stat(dataDirectory, { bigint: true }).catch(() => undefined);
  if (!goal) return [];
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const ours = await Promise.all(
    pids.map(async (pid) => {
      try {
        // Every PostgreSQL process stays in its data directory; compared by inode, as paths may have several spellings.
        const cwd = await stat(`/proc/${pid}/cwd`, { bigint: true });
        if (cwd.ino !== goal.ino || cwd.dev !== goal.dev) return false;
        const program = basename(await readlink(`/proc/${pid}/exe`)).replace(/ \(deleted\)$/, "");
        return program === "postgres";
      } catch {
        return false; // ended meanwhile, or another user's
      }
    }),
  );
  return pids.filter((_, index) => ours[index]).map(Number);
}

async function looksLikePostgres(pid: number, dataDirectory: string): Promise<boolean> {
  try {
    const { stdout } = await run("ps", ["-o", "command=", "-p", String(pid)], { timeout: 5_000 });
    return stdout.includes("postgres") && stdout.includes(dataDirectory);
  } catch {
    return false;
  }
}

async function recordedPid(dataDirectory: string): Promise<number | undefined> {
  const text = await readFile(join(dataDirectory, "postmaster.pid"), "utf8").catch(() => "");
  const pid = Number.parseInt(text, 10);
  return pid > 1 ? pid : undefined;
}

function isAlive(pid: number): boolean {
  return send(pid, 0);
}

/** False if there is no such process; one we may not signal is there. */
function send(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}
