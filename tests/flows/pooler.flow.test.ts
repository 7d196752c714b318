import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasPgbouncer, type Pgbouncer, startPgbouncer } from "../support/database/pgbouncer.ts";
import { apiClient } from "../support/people/api-client.ts";
import { type CrashingSystem, startCrashingSystem } from "../support/system/crashing-system.ts";
import { ADMIN } from "../support/system/system.ts";

const SERVICES = ["identity-service", "token-service", "audit-service"] as const;

describe.skipIf(!hasPgbouncer)("behind PgBouncer", () => {
  let system: CrashingSystem;
  const poolers: Pgbouncer[] = [];
  /** Through a pooler of transactions. */
  const shared = new Map<string, string>();

  beforeAll(async () => {
    system = await startCrashingSystem(async ({ name, environment }) => {
      const { DATABASE_URL: url, DATABASE_PASSWORD_FILE: passwordFile } = environment;
      if (url === undefined) return {};
      const target = { url, password: (await readFile(passwordFile ?? "", "utf8")).trim() };
      const [ofSessions, ofTransactions] = await Promise.all([
        startPgbouncer(target),
        startPgbouncer(target, ["pool_mode = transaction"]),
      ]);
      poolers.push(ofSessions, ofTransactions);
      shared.set(name, ofTransactions.url);
      return { DATABASE_URL: ofSessions.url, DATABASE_POOLER: "true" };
    });
  });
  afterAll(async () => {
    await system?.remove();
    await Promise.all(poolers.map((pooler) => pooler.stop()));
  });

  test("which pools sessions, a user registers, pays, refreshes and logs out, and the log has it all", async () => {
    const api = apiClient(`http://127.0.0.1:${system.ports.GATEWAY_PORT}`);
    const { accessToken, refreshToken } = await api.newUser();
    expect((await api.get("/auth/me", { token: accessToken })).status).toBe(200);
    const refreshed = await api.post("/auth/refresh", { refreshToken });
    expect(refreshed.status).toBe(200);
    const token = refreshed.body.data.accessToken as string;
    expect((await api.post("/auth/logout", {}, { token })).status).toBe(200);
    expect((await api.get("/auth/me", { token })).status).toBe(401);
    const admin = await api.logIn(ADMIN);
    // Numbered: under the lock of a session.
    await expect
      .poll(async () => {
        const found = await api.get("/admin/audit?action=auth.logout", { token: admin.accessToken });
        return found.body.data.entries.length;
      })
      .toBeGreaterThan(0);
    expect(system.ended).toEqual([]);
  });

  test.each(SERVICES)("which pools transactions, %s ends at its start and says why", async (name) => {
    const file = join(system.home, "logs", `${name}.log`);
    await system.kill(name);
    const before = (await readFile(file, "utf8")).length;
    system.configure(name, { DATABASE_URL: shared.get(name) ?? "" });
    await system.launch(name);
    await expect.poll(() => system.ended).toContain(name);
    await system.kill(name);
    const log = (await readFile(file, "utf8")).slice(before);
    const fatal = log.split("\n").find((line) => line.includes('"level":"fatal"')) ?? "{}";
    expect(JSON.parse(fatal).msg).toMatch(/^DATABASE_URL: a pooler .*: set pool_mode = session in PgBouncer/);
    // It has not taken the lock of the sequencer, which the pooler would keep.
    expect(log).not.toContain("this replica now numbers the audit log");
  });
});
