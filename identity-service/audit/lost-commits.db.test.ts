import { execFile } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "#deploy/local/postgres/embedded-postgres.ts";
import { connectTo, databaseUrl, ensureDatabase } from "#deploy/local/postgres/ensure-database.ts";
import { randomPassword } from "#deploy/local/private-file.ts";
import { databaseOf } from "#deploy/service-databases.ts";
import { Secret } from "#kit/config/config.ts";
import { connectPostgres, type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { untilSuccess } from "#kit/telemetry/repeat.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { DATA_ROOT } from "#tests/support/database/postgres-test-server.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { register } from "../accounts/register.ts";
import { ANNA, soon, testDeps } from "../testing/test-deps.ts";
import { recordAudit } from "./record-audit.ts";
import { deleteRecordedEvents } from "./security-event-store.ts";
import { createLostCommitsLook } from "./security-event-worker.ts";

const run = promisify(execFile);
const HOUR_MS = 3_600_000;
const wanted = databaseOf("identity-service");
const passwords = { owner: randomPassword(), service: randomPassword() };
const superuserPassword = randomPassword();
const silent = pino({ level: "silent" });

let folder: string;
let port: number;
let postgres: EmbeddedPostgres;
const ends: (() => Promise<void>)[] = [];

/** Durable, as in production: what is acknowledged survives a crash. */
async function start(settings: Record<string, string> = {}): Promise<void> {
  postgres = await startEmbeddedPostgres({
    dataDirectory: join(folder, "data"),
    port,
    password: superuserPassword,
    logFile: join(folder, "postgres.log"),
    durable: true,
    settings,
  });
}

async function crash(): Promise<void> {
  process.kill(postgres.pid, "SIGKILL");
  await postgres.exited;
}

async function copyData(from: string, to: string): Promise<void> {
  await rm(join(folder, to), { recursive: true, force: true });
  await run("cp", ["-a", join(folder, from), join(folder, to)]);
}

/** The server recovers from the WAL that it has, and begins a new timeline. */
async function promote(): Promise<void> {
  const signal = join(folder, "data", "recovery.signal");
  await writeFile(signal, "");
  await chmod(signal, 0o666);
  await start({ restore_command: "false", hot_standby: "off" });
  const admin = connectTo(postgres.server, "postgres");
  const [row] = await admin<
    { timeline: number }[]
  >`select timeline_id as timeline from pg_control_checkpoint()`;
  await admin.end();
  expect(row?.timeline).toBe(2);
}

/** A process of identity-service: its pool, its memory, its log. */
async function replica() {
  const config = {
    DATABASE_URL: databaseUrl({ host: "127.0.0.1", port }, wanted.serviceRole, "identity"),
    DATABASE_PASSWORD_FILE: new Secret(passwords.service),
    DATABASE_POOL_SIZE: 3,
  };
  const sql = connectPostgres(config, "identity-service", silent);
  ends.push(() => sql.end({ timeout: 0 }));
  const lines: Record<string, unknown>[] = [];
  const logger = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const clock = { aheadMs: 0 };
  const now = () => new Date(Date.now() + clock.aheadMs);
  const deps = { ...(await testDeps(sql)), now };
  const look = createLostCommitsLook({ sql, now, logger });
  return {
    sql,
    deps,
    clock,
    register: (email: string) =>
      untilSuccess("register", () => register(deps, { ...ANNA, email }, soon()), silent),
    /** Lines of the log since the last look. */
    async look() {
      await untilSuccess("look", look, silent);
      return lines.splice(0);
    },
    async emails() {
      const rows = await untilSuccess(
        "emails",
        () => sql<{ email: string }[]>`select email from users order by id`,
        silent,
      );
      return rows.map(({ email }) => email);
    },
    newestEvent: async () =>
      (await sql<{ at: Date }[]>`select occurred_at as at from security_events order by id desc limit 1`)[0]
        ?.at,
  };
}

beforeAll(async () => {
  folder = await mkdtemp(join(DATA_ROOT, "gatehouse-lost-commits-"));
  port = await freePort();
  await start();
  const admin = connectTo(postgres.server, "postgres");
  const root = join(import.meta.dirname, "..", "..");
  await ensureDatabase({ admin, server: postgres.server, wanted, name: "identity", passwords, root });
  await admin.end();
  await postgres.stop();
  await copyData("data", "migrated");
});
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
  await postgres.stop();
  await copyData("migrated", "data");
});
afterAll(() => rm(folder, { recursive: true }));

test.each([
  ["a restored back-up", () => start()],
  ["a promoted standby that lacked the newest commits", promote],
])("%s: every replica names once what it lost, and between which times", async (_how, comeBack) => {
  await start();
  const [one, two, idle] = [await replica(), await replica(), await replica()];
  await one.register("kept@example.com");
  const keptAt = await one.newestEvent();
  expect(await one.look()).toEqual([]);
  await postgres.stop();
  await copyData("data", "behind");
  await start();
  await one.register("lost@example.com");
  await two.register("lost-too@example.com");
  const lostAt = await two.newestEvent();
  expect(lostAt?.getTime()).toBeGreaterThan(keptAt?.getTime() ?? Number.POSITIVE_INFINITY);
  await crash();
  await copyData("behind", "data");
  await comeBack();
  // More than was lost: the write-ahead log is further than before.
  for (const name of ["new-a", "new-b", "new-c"]) await one.register(`${name}@example.com`);
  expect(await idle.emails()).toEqual(
    ["kept", "new-a", "new-b", "new-c"].map((name) => `${name}@example.com`),
  );

  expect(await one.look()).toMatchObject([
    { level: 50, lost: 1, after: keptAt?.toISOString(), msg: expect.stringContaining("has lost commits") },
  ]);
  expect(await two.look()).toMatchObject([
    { lost: 1, after: keptAt?.toISOString(), until: lostAt?.toISOString() },
  ]);
  expect(await idle.look()).toEqual([]);
  for (const each of [one, two]) expect(await each.look()).toEqual([]);
});

test.each([
  ["a restart of PostgreSQL", async () => postgres.stop().then(() => start())],
  ["a crash of PostgreSQL right after a commit", async () => crash().then(() => start())],
  ["a fail-over that lost nothing", async () => crash().then(promote)],
])("%s raises no alarm, nor does a service that starts afterwards", async (_how, happen) => {
  await start();
  const [one, two] = [await replica(), await replica()];
  await one.register("one@example.com");
  await two.register("two@example.com");
  await happen();
  for (const each of [one, two, await replica()]) {
    expect(await each.emails()).toEqual(["one@example.com", "two@example.com"]);
    expect(await each.look()).toEqual([]);
  }
  await two.register("three@example.com");
  for (const each of [one, two]) expect(await each.look()).toEqual([]);
});

test("what was not committed is no loss, nor is an event that was deleted at its time", async () => {
  await start();
  const { sql, deps, clock, look } = await replica();
  const record = (tx: TransactionSql) =>
    recordAudit(tx, deps, { type: "unlocked", userId: uuidv7() }, newCallContext());
  const undone = transaction(sql, async (tx) => {
    await record(tx);
    throw new Error("rolled back");
  });
  await expect(undone).rejects.toThrow("rolled back");
  const failed = transaction(sql, async (tx) => {
    await record(tx);
    await tx`select from nowhere`.catch(() => undefined);
  });
  await expect(failed).rejects.toThrow("nowhere");
  await transaction(sql, (tx) =>
    tx.savepoint(async (inner) => record(inner).then(() => Promise.reject("undone"))).catch(() => undefined),
  );
  expect(await look()).toEqual([]);

  await transaction(sql, record);
  await sql`update security_events set recorded_at = now()`;
  clock.aheadMs = 24 * HOUR_MS + 1;
  expect(await deleteRecordedEvents(sql, new Date(Date.now() + 1_000), 10)).toBe(1);
  expect(await look()).toEqual([]);
});

test("after any number of checked commits the newest are remembered", async () => {
  await start();
  const { sql, deps, look } = await replica();
  const record = () =>
    transaction(sql, (tx) => recordAudit(tx, deps, { type: "unlocked", userId: uuidv7() }, newCallContext()));
  for (let count = 0; count < 150; count += 1) await record();
  expect(await look()).toEqual([]);
  await sql`delete from security_events`;
  expect(await look()).toMatchObject([{ lost: 100 }]);
  await record();
  expect(await look()).toEqual([]);
});
