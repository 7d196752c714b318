import { inspect } from "node:util";
import { ConfigError, EXIT_CONFIG } from "#kit/config/config.ts";
import { causeOfUnavailable } from "#kit/database/database-failure.ts";
import { OlderDatabaseError } from "#kit/database/migrate.ts";
import { inSources } from "#kit/telemetry/source-places.ts";
import { migrateSchema } from "../migrate-schema.ts";
import { awaitDatabase } from "./await-database.ts";
import { ROOT, schemaCommand } from "./schema-config.ts";
import { connectForSchemas } from "./schema-connection.ts";

/** Then the Job fails and is retried, so that a long wait shows in its restarts. */
const WAIT_TIMEOUT_MS = 5 * 60_000;

const { wanted, config } = schemaCommand();
for (const { name, sql: owner } of connectForSchemas(config, wanted, "migrate")) {
  try {
    const log = (reason: string) => console.log(`${name}: waiting for the database: ${reason}`);
    await awaitDatabase(owner, { timeoutMs: WAIT_TIMEOUT_MS, log });
    const ran = await migrateSchema({ owner, wanted, root: ROOT, log: console.log });
    console.log(`${name}: ${ran.length === 0 ? "up to date" : `${ran.length} migrations ran`}`);
  } catch (error) {
    const isExpected = error instanceof OlderDatabaseError || error instanceof ConfigError;
    const cause = causeOfUnavailable(error) ?? (isExpected ? error : undefined);
    console.error(cause === undefined ? inSources(inspect(error)) : `${name}: ${cause.message}`);
    process.exitCode = error instanceof ConfigError ? EXIT_CONFIG : 1;
  } finally {
    await owner.end({ timeout: 1 });
  }
}
