import { readFile } from "node:fs/promises";
import { join } from "node:path";

const TICK_US = 10_000;

/** CPU time of a PostgreSQL and all its connections until now, those that have ended included, in microseconds. */
export async function serverCpuUs(dataDirectory: string): Promise<number> {
  const pid = (await readFile(join(dataDirectory, "postmaster.pid"), "utf8")).split("\n")[0];
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, "utf8")).trim().split(" ");
  const living = await Promise.all(children.map(ranUs));
  const fields = (await readFile(`/proc/${pid}/stat`, "utf8")).split(") ")[1]?.split(" ") ?? [];
  const ended = (Number(fields[13]) + Number(fields[14])) * TICK_US;
  return ended + living.reduce((sum, us) => sum + us, 0);
}

/** Exact to a nanosecond: time on a CPU, without waiting for one. */
async function ranUs(pid: string): Promise<number> {
  const text = await readFile(`/proc/${pid}/schedstat`, "utf8").catch(() => "0"); // It may have ended.
  return Number(text.split(" ")[0]) / 1_000;
}
