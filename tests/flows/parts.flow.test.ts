import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import { slotOfSession } from "#token-client/session-slot.ts";
import { apiClient } from "../support/people/api-client.ts";
import { type CrashingSystem, startCrashingSystem } from "../support/system/crashing-system.ts";

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, "..", "..");
const SECOND = "token_1";
/** Beneath the limit of a network. */
const PAUSE_MS = 300;

let system: CrashingSystem;
let folder: string;
let partsFile: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "parts-"));
  partsFile = join(folder, "parts.yaml");
  system = await startCrashingSystem();
});
afterAll(async () => {
  await system?.remove();
  await rm(folder, { recursive: true, force: true });
});

async function gatehouse(
  ...args: string[]
): Promise<{ parts?: { number: number; slots: number[] }[]; sessions?: number }> {
  const { stdout } = await run(process.execPath, ["cli/main.ts", ...args, "--json", "--home", system.home], {
    cwd: ROOT,
  });
  return JSON.parse(stdout);
}

const sizes = async () => (await gatehouse("parts", "list")).parts?.map(({ slots }) => slots.length);

/** As the superuser, in either database. */
async function asked(database: string, statement: string) {
  const sql = connectTo(system.server(), database);
  try {
    return await sql.unsafe(statement);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

test("a second database takes some of the users while they are used, dies alone, and gives them back", async () => {
  const api = apiClient(system.url);
  const users = await Promise.all(Array.from({ length: 8 }, () => api.newUser()));

  await asked("postgres", `create database ${SECOND}`);
  const { host, port, username } = system.server();
  await writeFile(partsFile, `parts:\n  - number: 1\n    url: postgres://${host}:${port}/${SECOND}\n`);
  const { stdout } = await run(process.execPath, ["deploy/image/migrate.ts", "token"], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH,
      DATABASE_URL: `postgres://${username}@${host}:${port}/token`,
      DATABASE_PASSWORD_FILE: join(system.home, "secrets", "postgres-superuser-password"),
      PARTS_FILE: partsFile,
    },
  });
  expect(stdout).toMatch(/^token: up to date\n.*token, part 1: \d+ migrations ran\n$/s);
  system.configure("token-service", { PARTS_FILE: partsFile });
  await system.kill("token-service");
  await system.start("token-service");
  await expect.poll(sizes).toEqual([4_096, 0]);

  // Each user goes on with refresh tokens, some log in again, while slots move and token-service dies once.
  let isMoving = true;
  const use = async (user: (typeof users)[number]) => {
    let { refreshToken } = user;
    while (isMoving) {
      const { status, body } = await api.post("/auth/refresh", { refreshToken });
      if (status === 200) refreshToken = body.data.refreshToken;
      else expect(status).toBe(503);
      await sleep(PAUSE_MS);
    }
    return { ...user, refreshToken };
  };
  const using = Promise.all(users.map(use));
  // It fails when token-service dies.
  const moving = gatehouse("parts", "move", "0", "1", "--slots", "512").catch(() => undefined);
  await expect
    .poll(
      async () => (await asked(SECOND, "select count(*)::int as n from slots where state = 'here'"))[0]?.n,
    )
    .toBeGreaterThan(100);
  await system.kill("token-service");
  await moving;
  await system.start("token-service");
  await expect.poll(async () => (await sizes())?.reduce((sum, each) => sum + each, 0)).toBe(4_096);
  const [, there = 0] = (await sizes()) ?? [];
  if (there < 512) await gatehouse("parts", "move", "0", "1", "--slots", String(512 - there));
  isMoving = false;
  const after = await using;
  await expect.poll(sizes).toEqual([3_584, 512]);

  const slots = after.map(({ accessToken }) => slotOfSession(String(decodeJwt(accessToken).sid)));
  const moved = JSON.stringify({ slots: slots.slice(0, 4), part: 1 });
  await gatehouse("rpc", "gatehouse.token.v1.PartService/MoveSlots", moved);
  const [elsewhere, here] = [
    after.slice(0, 4),
    after.slice(4).filter((_, index) => (slots[index + 4] ?? 0) > 512),
  ];
  const [row] = await asked(
    SECOND,
    "select count(distinct user_id)::int as n from sessions where revoked_at is null",
  );
  expect(row?.n).toBeGreaterThanOrEqual(4);
  // Not by the client of the tests, which repeats a call.
  const statusOf = async ({ accessToken }: (typeof after)[number]) =>
    (await fetch(`${system.url}/auth/me`, { headers: { authorization: `Bearer ${accessToken}` } })).status;
  const statuses = (group: typeof after) => Promise.all(group.map(statusOf));
  expect(new Set(await statuses(after))).toEqual(new Set([200]));

  await asked("postgres", `alter database ${SECOND} allow_connections false`);
  await asked(
    "postgres",
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${SECOND}'`,
  );
  await expect.poll(async () => new Set(await statuses(elsewhere))).toEqual(new Set([503]));
  expect(new Set(await statuses(here))).toEqual(new Set([200]));
  await asked("postgres", `alter database ${SECOND} allow_connections true`);
  await expect.poll(async () => new Set(await statuses(elsewhere))).toEqual(new Set([200]));

  await gatehouse("parts", "move", "1", "0");
  await expect.poll(sizes).toEqual([4_096, 0]);
  for (const { refreshToken } of after) {
    const refreshed = await api.post("/auth/refresh", { refreshToken });
    expect(refreshed.status).toBe(200);
  }
  expect(await asked(SECOND, "select from sessions")).toEqual([]);
});
