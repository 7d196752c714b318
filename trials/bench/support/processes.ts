import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/** What Linux says of processes in /proc: their CPU time and their memory. */

const TICKS_PER_S = Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));

/** User and system time of a process with all its threads until now, also the ended ones, in microseconds. */
export function cpuUs(pid: number): number {
  return ticks(pid, 11, 12);
}

/** The same of the children of a process, also the ended ones. */
export function childrenCpuUs(pid: number): number {
  return (
    ticks(pid, 13, 14) +
    childrenOf(pid).reduce((sum, child) => sum + (whileAlive(() => cpuUs(child)) ?? 0), 0)
  );
}

/** User and system time; the numbers of `man proc_pid_stat` begin at 1 and at the process id. */
function ticks(pid: number, user: number, system: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
  return ((Number(fields[user]) + Number(fields[system])) / TICKS_PER_S) * 1e6;
}

function childrenOf(pid: number): number[] {
  const tasks = readdirSync(`/proc/${pid}/task`);
  const texts = tasks.map((task) => readFileSync(`/proc/${pid}/task/${task}/children`, "utf8"));
  return texts.join(" ").split(" ").filter(Boolean).map(Number);
}

/** Undefined for a process that has ended meanwhile. */
function whileAlive<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Memory of a process, with its share of what it has in common with others (PSS), in MB. */
export function memoryMb(pid: number): number {
  const [, kib] = /^Pss: +(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8")) ?? [];
  return (Number(kib) * 1024) / 1e6;
}
