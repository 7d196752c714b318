import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";

/** Children notice within moments that their launcher is gone; this is for one that hangs. */
const GRACE_MS = 3_000;
const POLL_MS = 50;

const recordSchema = z.array(z.object({ pid: z.number().int().min(2), startedAt: z.string() }));

/** Notes which processes run, for the next launcher should this one be killed. */
export function recordProcesses(file: string, pids: readonly number[]): void {
  const record = pids.flatMap((pid) => {
    const startedAt = startTime(pid);
    return startedAt === undefined ? [] : [{ pid, startedAt }];
  });
  // At once, not later: there may be no later.
  writeFileSync(`${file}.new`, JSON.stringify(record), { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

/** Forgets the record: everything has ended in order. */
export function forgetProcesses(file: string): void {
  rmSync(file, { force: true });
}

/**
 * Waits for the processes of a killed launcher to end, then ends them by force. A process is one of them only if it
 * also started at the recorded time: its number alone may have been given to another program since. (Known on Linux
 * only; elsewhere they end by themselves.)
 *
 * @returns true if a launcher did not end in order.
 */
export async function endLeftovers(file: string): Promise<boolean> {
  const record = readRecord(file);
  if (record === undefined) return false;
  const left = () => record.filter(({ pid, startedAt }) => startTime(pid) === startedAt);
  const deadline = performance.now() + GRACE_MS;
  while (left().length > 0 && performance.now() < deadline) await sleep(POLL_MS);
  for (const { pid } of left()) process.kill(pid, "SIGKILL");
  while (left().length > 0 && performance.now() < deadline + GRACE_MS) await sleep(POLL_MS);
  forgetProcesses(file);
  return true;
}

function readRecord(file: string): z.infer<typeof recordSchema> | undefined {
  try {
    return recordSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch {
    return undefined;
  }
}

/** When a living process started, in ticks since the boot and with the boot's id; undefined if it has ended. */
function startTime(pid: number): string | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in parentheses may contain anything. Then come the state and, 19 fields later, the start: proc(5).
    const fields = status.slice(status.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z" || fields[19] === undefined) return undefined;
    return `${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()}:${fields[19]}`;
  } catch {
    return undefined;
  }
}
