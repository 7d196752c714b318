/**
 * What calls and periodic work cost PostgreSQL with 10,000 users and with many: CPU time of the server, with schemas
 * filled by SQL, two sessions a user, and the same thousand users active. Cold pages, hashing and the services' own work
 * do not grow with a table and are left out.
 *
 * With a folder the databases stay there, and the next run does not fill them again.
 *
 *   npm run trial -- growth [--users 10000000] [--entries 30000000] [--rounds 7]
 *     [--only parts,of,names] [--folder path]
 */
import { existsSync, writeFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { fill, type Size } from "./support/growth-fill.ts";
import { type Operations, operationsOf } from "./support/growth-operations.ts";
import { quantile, serverCpuUs, startWorkbench } from "./support/workbench.ts";

const SMALL: Size = { users: 10_000, entries: 30_000 };
/** With room for making indexes. */
const BYTES = { user: 2_000, entry: 1_100 };
const AIM = 1.3;
/**
 * What one may cost at all, in microseconds, where the work itself grows: with the users who have a text, the lists of the
 * index that a text is looked up in, and the height of the tree.
 */
const BOUNDS_US: Record<string, number> = {
  "user search, two letters": 200_000,
  "user search, three common letters": 100_000,
  "user search, three rare letters": 100_000,
  "user search, everybody": 100_000,
  "user search, an address": 100_000,
  "user search, nobody": 100_000,
  "retention of a month": 100_000,
};
/** Durability costs time, not CPU, and none that a table's size changes. */
const SETTINGS = {
  shared_buffers: "2GB",
  max_wal_size: "4GB",
  wal_level: "minimal",
  max_wal_senders: "0",
  maintenance_work_mem: "700MB",
  max_parallel_maintenance_workers: "2",
  autovacuum: "off",
};

const { values } = parseArgs({
  options: {
    users: { type: "string", default: "10000000" },
    entries: { type: "string", default: "30000000" },
    folder: { type: "string" },
    rounds: { type: "string", default: "7" },
    only: { type: "string", default: "" },
  },
});
const ROUNDS = Number(values.rounds);
const large: Size = { users: Number(values.users), entries: Number(values.entries) };
const beganMs = performance.now();
const say = (text: string) =>
  console.log(`${((performance.now() - beganMs) / 1_000).toFixed(0).padStart(5)} s  ${text}`);

const disk = await statfs(tmpdir());
const needed = large.users * BYTES.user + large.entries * BYTES.entry;
if (needed > disk.bavail * disk.bsize) {
  throw new Error(`needs ${(needed / 1e9).toFixed(0)} GB in ${tmpdir()}; choose fewer users or entries`);
}

interface Installation {
  name: "small" | "large";
  operations: Operations;
  cpuUs: () => Promise<number>;
}

async function install(name: Installation["name"], size: Size): Promise<Installation> {
  const keptFolder = values.folder && join(values.folder, name);
  const workbench = await startWorkbench({
    durable: false,
    settings: SETTINGS,
    ...(keptFolder && { keptFolder }),
  });
  stops.push(() => workbench.stop());
  const mark = join(workbench.folder, `filled-${size.users}-${size.entries}`);
  if (!existsSync(mark)) {
    await fill(workbench, size, (text) => say(`${name}: ${text}`));
    writeFileSync(mark, "");
  }
  say(`${name}: ${size.users} users, ${size.users * 2} sessions and ${size.entries} audit entries are there`);
  const operations = await operationsOf(workbench, size);
  stops.push(() => operations.close());
  return { name, operations, cpuUs: () => serverCpuUs(join(workbench.folder, "postgres")) };
}

const figures = new Map<string, { small: number[]; large: number[] }>();
const stops: (() => Promise<void>)[] = [];
try {
  await compare([await install("small", SMALL), await install("large", large)]);
} finally {
  for (const stop of stops.toReversed()) await stop();
}
process.exitCode = report() ? 0 : 1;

async function compare(installations: readonly Installation[]): Promise<void> {
  for (let round = -1; round < ROUNDS; round += 1) {
    for (const name of Object.keys(installations[0]?.operations.all ?? {})) {
      if (!values.only.split(",").some((part) => name.includes(part))) continue;
      const figure = figures.get(name) ?? { small: [], large: [] };
      figures.set(name, figure);
      for (const installation of installations) {
        const us = await costOf(installation, name, round + 1);
        if (round >= 0 && us !== undefined) figure[installation.name].push(us);
      }
    }
    say(round < 0 ? "warm" : `round ${round + 1} of ${ROUNDS}`);
  }
}

/** Of one, in microseconds; nothing if there was nothing to do. */
async function costOf({ operations, cpuUs }: Installation, name: string, round: number) {
  const before = await cpuUs();
  const done = await operations.all[name]?.(round);
  return done ? ((await cpuUs()) - before) / done : undefined;
}

/** @returns whether nothing has grown too much. */
function report(): boolean {
  let isMet = true;
  const sizes = `${SMALL.users} users, ${large.users} users`;
  console.log(`CPU of PostgreSQL, µs each, median of ${ROUNDS} rounds: ${sizes}, ratio`);
  for (const [name, { small, large: grown }] of figures) {
    const [of, to] = [quantile(small, 0.5), quantile(grown, 0.5)];
    const ratio = to / of;
    const bound = BOUNDS_US[name];
    const isGood = bound === undefined ? !(ratio > AIM) : to <= bound;
    isMet &&= isGood;
    const cells = [of.toFixed(0), to.toFixed(0), ratio.toFixed(2)].map((text) => text.padStart(9));
    const verdict = isGood ? (bound === undefined ? "" : "  bounded") : "  TOO MUCH";
    console.log(`${name.padEnd(40)}${cells.join("")}${verdict}`);
  }
  console.log(`each at most ${AIM} times, or bounded: ${isMet ? "yes" : "NO"}`);
  return isMet;
}
