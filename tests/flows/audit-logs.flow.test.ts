import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import { verifyEntry } from "#web/audit-proof/verify-entry.ts";
import { type ApiClient, apiClient } from "../support/people/api-client.ts";
import { addAuditLogs, auditDatabase } from "../support/system/audit-logs.ts";
import { type CrashingSystem, startCrashingSystem } from "../support/system/crashing-system.ts";
import { ADMIN } from "../support/system/system.ts";

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, "..", "..");
const FURTHER = [1, 4];

let system: CrashingSystem;
let folder: string;
let api: ApiClient;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "logs-"));
  system = await startCrashingSystem();
  api = apiClient(system.url);
});
afterAll(async () => {
  await system?.remove();
  await rm(folder, { recursive: true, force: true });
});

const at = (name: string) => join(folder, name);

async function gatehouse(...args: string[]): Promise<{ code: number; out: string }> {
  return run(process.execPath, ["cli/main.ts", ...args, "--home", system.home], { cwd: ROOT }).then(
    ({ stdout: out }) => ({ code: 0, out }),
    ({ code, stdout: out }: { code: number; stdout: string }) => ({ code, out }),
  );
}

/** As the superuser. */
async function asked(database: string, statement: string) {
  const sql = connectTo(system.server(), database);
  try {
    return await sql.unsafe(statement);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** Entries of a log by call. */
async function callsIn(log: number): Promise<Map<string, string[]>> {
  const rows = await asked(
    auditDatabase(log),
    "select call_id, array_agg(kind order by kind) as kinds from log_entries where call_id <> '' group by 1",
  );
  return new Map(rows.map(({ call_id: call, kinds }) => [String(call), kinds as string[]]));
}

async function restart(
  name: "audit-service" | "gateway",
  environment: Record<string, string>,
): Promise<void> {
  system.configure(name, environment);
  await system.kill(name);
  await system.start(name);
}

test("a log becomes three without a stop, each dies alone, and one head proves them all", async () => {
  const user = await api.newUser();
  let acts = 0;
  const act = async (firstName: string) => {
    acts += 1;
    const changed = await api.call("PATCH", "/auth/me", { token: user.accessToken, body: { firstName } });
    expect(changed.status).toBe(200);
  };
  await act("before");
  const checkpoint = async (...args: string[]) =>
    JSON.parse((await gatehouse("audit", "checkpoint", ...args, "--json")).out);
  await expect.poll(async () => (await checkpoint()).size).toBeGreaterThan(2);
  const { verifierKey, note } = await checkpoint();
  await writeFile(at("kept.jsonl"), `${JSON.stringify({ type: "checkpoint", note })}\n`);
  const trust = ["--key", verifierKey, "--checkpoints", at("kept.jsonl")];

  const logsFile = await addAuditLogs(system, FURTHER);
  // In the wrong order: what the gateway sends to a log that audit-service does not know yet is kept.
  await restart("gateway", { AUDIT_LOGS: "0,1,4" });
  for (let call = 0; call < 6; call += 1) await act(`early ${call}`);
  await restart("audit-service", { LOGS_FILE: logsFile });
  const sizes = () => Promise.all([0, ...FURTHER].map(async (log) => (await callsIn(log)).size));
  const actUntilEachHas = (least: number) =>
    expect
      .poll(async () => {
        await act("three");
        return Math.min(...(await sizes()));
      })
      .toBeGreaterThanOrEqual(least);
  await actUntilEachHas(3);

  // One log is away: no call fails, and the searches, which would lack its entries, do.
  await asked("postgres", `alter database ${auditDatabase(4)} allow_connections false`);
  await asked(
    "postgres",
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${auditDatabase(4)}'`,
  );
  for (let call = 0; call < 9; call += 1) await act(`two ${call}`);
  expect((await gatehouse("audit", "search", "--action", "auth.update_profile")).code).not.toBe(0);
  await asked("postgres", `alter database ${auditDatabase(4)} allow_connections true`);
  await system.kill("audit-service");
  for (let call = 0; call < 3; call += 1) await act(`none ${call}`);
  await system.start("audit-service");

  // Each call is in one log, with both of its entries, once.
  await expect
    .poll(
      async () =>
        (await gatehouse("audit", "search", "--action", "auth.update_profile", "--all", "--json")).out,
    )
    .toSatisfy((out: string) => out.trimEnd().split("\n").length === 2 * acts);
  const calls = await Promise.all([0, ...FURTHER].map(callsIn));
  const all = calls.flatMap((each) => [...each.keys()]);
  expect(new Set(all).size).toBe(all.length);
  for (const kinds of calls.flatMap((each) => [...each.values()]))
    expect(kinds).toEqual(["intent", "outcome"]);

  // The head of log 0 commits to the others, and what was proven before still is.
  const verified = async (...args: string[]) => {
    const { code, out } = await gatehouse("audit", "verify", ...args, "--json");
    return { code, verdict: JSON.parse(out) };
  };
  await expect
    .poll(async () => (await asked("audit", NOTES)).map(({ resource }) => resource))
    .toEqual(FURTHER.map((log) => `gatehouse.local/audit/${log}`));
  expect(await verified("--live", ...trust)).toMatchObject({
    code: 0,
    verdict: { result: "proven", logs: [0, ...FURTHER].map(() => ({ result: "proven" })) },
  });
  expect((await gatehouse("audit", "export", "--output", at("log.jsonl"))).code).toBe(0);
  expect(await verified(at("log.jsonl"), ...trust)).toMatchObject({ code: 0 });

  const admin = { token: (await api.logIn(ADMIN)).accessToken };
  const found = await api.get("/admin/audit?action=auth.update_profile&limit=50", admin);
  const { id } = found.body.data.entries.find(({ log }: { log: number }) => log === 4);
  const { entry, proof } = (await api.get(`/admin/audit/${id}`, admin)).body.data;
  expect(await verifyEntry(entry, proof, verifierKey)).toMatchObject({ isProven: true, leaf: { log: 4 } });

  // A log restored from before: what log 0 has of it is known.
  const before = await checkpoint("--log", "1");
  await expect.poll(async () => (await asked("audit", notedSize(1)))[0]?.size).toBe(before.size);
  await system.kill("audit-service");
  await asked("postgres", `drop database ${auditDatabase(1)}`);
  await asked("postgres", `create database ${auditDatabase(1)} template ${auditDatabase(4)}`);
  await system.start("audit-service");
  await expect
    .poll(async () => (await fetch(`http://127.0.0.1:${system.ports.AUDIT_OPERATIONS_PORT}/metrics`)).text())
    .toMatch(/^gatehouse_audit_refused\{log="1",.*\} 1$/m);
  expect((await verified("--live", ...trust)).code).toBe(65);
});

const NOTES =
  "select resource from log_entries where action = 'audit.checkpoint_noted' group by resource order by resource";
const notedSize = (log: number) => `select split_part(reason, ' ', 1)::int as size from log_entries
  where action = 'audit.checkpoint_noted' and resource = 'gatehouse.local/audit/${log}' order by position desc limit 1`;
