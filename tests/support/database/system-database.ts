import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import type { System } from "../system/system.ts";

/** A superuser's connection to a database of a running system: to look behind the API, or to bring about what it cannot. */
export async function databaseOfSystem(
  system: Pick<System, "home" | "ports">,
  database: "identity" | "token" | "audit" | `audit_${number}`,
) {
  const password = await readFile(join(system.home, "secrets", "postgres-superuser-password"), "utf8");
  const port = system.ports.POSTGRES_PORT;
  const server = { host: "127.0.0.1", port, username: "gatehouse_superuser", password: password.trim() };
  const sql = connectTo(server, database);
  return { sql, [Symbol.asyncDispose]: () => sql.end({ timeout: 2 }) };
}
