import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { causeOfUnavailable } from "#kit/database/database-failure.ts";
import { pendingMigrations } from "#kit/database/migrate.ts";
import { ROOT, schemaCommand } from "./schema-config.ts";
import { connectForSchemas } from "./schema-connection.ts";

const INTERVAL_MS = 1_000;
/** Then the container exits with 1 and restarts, so that a long wait shows in its restarts. */
const TIMEOUT_MS = 5 * 60_000;

const { wanted, config } = schemaCommand();
const directory = join(ROOT, wanted.service, "migrations");
const deadline = performance.now() + TIMEOUT_MS;
const databases = connectForSchemas(config, wanted, "await-schema");

/** @returns undefined once the schema is current, in all parts. */
async function obstacle(): Promise<string | undefined> {
  try {
    const pending = (
      await Promise.all(databases.map(({ sql }) => pendingMigrations({ sql, directory })))
    ).flat();
    return pending.length === 0 ? undefined : `pending migrations: ${pending.join(", ")}`;
  } catch (thrown) {
    const error = causeOfUnavailable(thrown) ?? thrown;
    return error instanceof Error ? error.message || error.name : String(error);
  }
}

let logged: string | undefined;
let reason = await obstacle();
while (reason !== undefined && performance.now() < deadline) {
  if (reason !== logged) console.log(`${wanted.database}: waiting: ${reason}`);
  logged = reason;
  await sleep(INTERVAL_MS);
  reason = await obstacle();
}
await Promise.all(databases.map(({ sql }) => sql.end({ timeout: 1 })));
if (reason === undefined) console.log(`${wanted.database}: the schema is current`);
else {
  console.error(`${wanted.database}: gave up after ${TIMEOUT_MS / 1_000} s: ${reason}`);
  process.exitCode = 1;
}
