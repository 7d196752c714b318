import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chown, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NOBODY } from "#deploy/local/postgres/embedded-postgres.ts";
import { apiClient } from "../support/people/api-client.ts";
import { type CrashingSystem, startCrashingSystem } from "../support/system/crashing-system.ts";
import { freePort } from "../support/system/free-port.ts";
import { ADMIN } from "../support/system/system.ts";

const SETTINGS = resolve(import.meta.dirname, "..", "..", "deploy", "high-availability", "pgbouncer.ini");
const program = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin"]
  .map((folder) => join(folder, "pgbouncer"))
  .find((path) => existsSync(path));
if (program === undefined) process.stdout.write("PgBouncer skipped: `apt-get install pgbouncer`\n");

describe.skipIf(program === undefined)("behind PgBouncer, which pools sessions", () => {
  let system: CrashingSystem;
  const poolers: ChildProcess[] = [];
  const folders: string[] = [];

  beforeAll(async () => {
    system = await startCrashingSystem(async ({ environment }) =>
      environment.DATABASE_URL === undefined ? {} : await pooled(environment),
    );
  });
  afterAll(async () => {
    await system?.remove();
    for (const pooler of poolers) pooler.kill("SIGKILL");
    await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
  });

  async function pooled(environment: Record<string, string>): Promise<Record<string, string>> {
    const url = new URL(environment.DATABASE_URL ?? "");
    const password = (await readFile(environment.DATABASE_PASSWORD_FILE ?? "", "utf8")).trim();
    const folder = await mkdtemp(join(tmpdir(), "gatehouse-pgbouncer-"));
    folders.push(folder);
    const port = await freePort();
    const [users, settings, own] = ["users.txt", "settings.ini", "pgbouncer.ini"].map((name) =>
      join(folder, name),
    ) as [string, string, string];
    await writeFile(users, `"${url.username}" "${password}"\n`);
    await writeFile(settings, await readFile(SETTINGS, "utf8"));
    await writeFile(
      own,
      `[databases]\n* = host=${url.hostname} port=${url.port}\n%include ${settings}\n` +
        `listen_addr = 127.0.0.1\nlisten_port = ${port}\nunix_socket_dir =\nauth_file = ${users}\n`,
    );
    // PgBouncer does not run as root.
    const user = process.getuid?.() === 0 ? NOBODY : undefined;
    if (user !== undefined)
      for (const path of [folder, users, settings, own]) await chown(path, user.uid, user.gid);
    const pooler = spawn(program ?? "", [own], { ...user, stdio: "ignore" });
    await once(pooler, "spawn");
    poolers.push(pooler);
    url.port = String(port);
    return { DATABASE_URL: url.href, DATABASE_POOLER: "true" };
  }

  test("a user registers, pays, refreshes and logs out, and the log has it all", async () => {
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
});
