import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import type { CrashingSystem } from "./crashing-system.ts";

const ROOT = resolve(import.meta.dirname, "..", "..", "..");

export const auditDatabase = (log: number) => (log === 0 ? "audit" : (`audit_${log}` as const));

/** Makes the databases of further audit logs, as an operator does. @returns the path of the file for `LOGS_FILE`. */
export async function addAuditLogs(
  { home, server }: Pick<CrashingSystem, "home" | "server">,
  numbers: readonly number[],
): Promise<string> {
  const { host, port, username } = server();
  const admin = connectTo(server(), "postgres");
  try {
    for (const log of numbers) await admin.unsafe(`create database ${auditDatabase(log)}`);
  } finally {
    await admin.end({ timeout: 1 });
  }
  const listed = numbers.map(
    (log) => `  - number: ${log}\n    url: postgres://${host}:${port}/${auditDatabase(log)}\n`,
  );
  const file = join(home, "logs.yaml");
  await writeFile(file, `logs:\n${listed.join("")}`);
  const { stdout } = await promisify(execFile)(process.execPath, ["deploy/image/migrate.ts", "audit"], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH,
      DATABASE_URL: `postgres://${username}@${host}:${port}/audit`,
      DATABASE_PASSWORD_FILE: join(home, "secrets", "postgres-superuser-password"),
      LOGS_FILE: file,
    },
  });
  for (const log of numbers)
    if (!stdout.includes(`audit, log ${log}: 1 migrations ran`)) throw new Error(`not migrated: ${stdout}`);
  return file;
}
