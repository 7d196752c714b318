import { readFileSync } from "node:fs";
import { openPool, type Sql } from "#kit/database/postgres.ts";
import type { SchemaConfig } from "./schema-config.ts";

const CONNECT_TIMEOUT_MS = 10_000;

/** Has no silence limit, because a migration may rewrite a table. */
export function connectForSchema(config: SchemaConfig, name: string): Sql {
  const { DATABASE_URL, DATABASE_PASSWORD_FILE, DATABASE_CA_FILE } = config;
  return openPool({
    url: DATABASE_URL,
    ca: DATABASE_CA_FILE === undefined ? undefined : readFileSync(DATABASE_CA_FILE),
    maxConnections: 1,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    maxWaitMs: CONNECT_TIMEOUT_MS,
    maxWaiting: 1,
    driver: {
      password: DATABASE_PASSWORD_FILE.reveal(),
      connection: { application_name: name, lock_timeout: 30_000 },
      onnotice: () => {},
    },
  });
}
