import { type ChildProcess, fork } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "#deploy/local/postgres/embedded-postgres.ts";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import { randomPassword } from "#deploy/local/private-file.ts";
import { DATA_ROOT } from "#tests/support/database/postgres-test-server.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import type { TransactionCounts } from "./transaction-load.ts";

const ROUNDS = Number(process.env.KILL_ROUNDS ?? 6);
const LOAD = resolve(import.meta.dirname, "transaction-load.ts");
/** Acknowledged between two blows, so that each falls among transactions of all kinds. */
const BETWEEN = 500;
const RECOVERY_TIMEOUT_MS = 60_000;
const WAYS = ["terminate the backends", "kill a backend", "kill the server"] as const;

let folder: string;
let postgres: EmbeddedPostgres;
let options: Parameters<typeof startEmbeddedPostgres>[0];

beforeAll(async () => {
  folder = await mkdtemp(join(DATA_ROOT, "gatehouse-kill-"));
  options = {
    dataDirectory: join(folder, "postgres"),
    port: await freePort(),
    password: randomPassword(),
    logFile: join(folder, "postgres.log"),
    durable: true,
  };
  postgres = await startEmbeddedPostgres(options);
  await asAdmin(async (admin) => {
    await admin.unsafe("create table ledger (id integer primary key, account integer)");
    await admin.unsafe("create table accounts (id integer primary key, balance integer not null default 0)");
    await admin.unsafe("insert into accounts (id) select generate_series(0, 49)");
  });
});

afterAll(async () => {
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
});

async function asAdmin(work: (admin: ReturnType<typeof connectTo>) => Promise<unknown>): Promise<void> {
  const admin = connectTo(postgres.server, "postgres");
  try {
    await work(admin);
  } finally {
    await admin.end({ timeout: 0 });
  }
}

async function strike(way: (typeof WAYS)[number]): Promise<void> {
  if (way === "kill the server") {
    process.kill(postgres.pid, "SIGKILL");
    await postgres.exited;
    postgres = await startEmbeddedPostgres(options);
    await asAdmin((admin) => admin`select 1`); // it takes connections as soon as the start has resolved
    return;
  }
  await asAdmin(async (admin) => {
    const backends = await admin<{ pid: number }[]>`
      select pid from pg_stat_activity where application_name = 'transaction load' limit 20`;
    if (way === "kill a backend") process.kill(backends[0]?.pid ?? Number.NaN, "SIGKILL");
    else for (const { pid } of backends) await admin`select pg_terminate_backend(${pid})`;
  });
}

function startLoad(): { child: ChildProcess; latest: () => TransactionCounts; exit: Promise<unknown> } {
  const { host, port, username, password } = postgres.server;
  const child = fork(LOAD, {
    env: {
      ...process.env,
      DATABASE_URL: `postgres://${username}@${host}:${port}/postgres`,
      DATABASE_PASSWORD: password,
    },
  });
  let counts: TransactionCounts = { acknowledged: 0, unavailable: 0, unexpected: [] };
  child.on("message", (message) => {
    counts = message as TransactionCounts;
  });
  const exit = new Promise((end) => child.once("exit", (code, signal) => end(signal ?? code)));
  return { child, latest: () => counts, exit };
}

test(
  "a database that is killed among a thousand transactions a second ends calls, and no process",
  async () => {
    const { child, latest, exit } = startLoad();
    const untilAcknowledged = async (count: number) => {
      const deadlineMs = performance.now() + RECOVERY_TIMEOUT_MS;
      while (latest().acknowledged < count) {
        if (child.exitCode !== null || child.signalCode !== null)
          throw new Error("the load's process has ended");
        if (performance.now() > deadlineMs) throw new Error("transactions did not go on in time");
        await sleep(20);
      }
    };
    const startedMs = performance.now();
    for (let round = 0; round < ROUNDS; round += 1) {
      await untilAcknowledged(latest().acknowledged + BETWEEN);
      await strike(WAYS[round % WAYS.length] ?? "kill the server");
    }
    await untilAcknowledged(latest().acknowledged + BETWEEN);
    child.send("stop");
    expect(await exit).toBe(0);
    const counts = latest();
    process.stdout.write(
      `${ROUNDS} rounds in ${((performance.now() - startedMs) / 1_000).toFixed(0)} s: ` +
        `${counts.acknowledged} transactions acknowledged, ${counts.unavailable} unavailable, 0 exits\n`,
    );
    expect(counts).toMatchObject({ unexpected: [], missing: [], isBalanced: true });
  },
  60_000 + ROUNDS * 20_000,
);
