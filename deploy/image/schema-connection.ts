import { readFileSync } from "node:fs";
import postgres, { type Sql } from "postgres";
import type { SchemaConfig } from "./schema-config.ts";

const CONNECT_TIMEOUT_S = 10;

/**
 * One connection for work on a schema. Unlike a service's pool it does not take a long silence for a dead server: a
 * migration may rewrite a table.
 */
export function connectForSchema(config: SchemaConfig, name: string): Sql {
  const { DATABASE_URL, DATABASE_PASSWORD_FILE, DATABASE_CA_FILE } = config;
  return postgres(DATABASE_URL, {
    password: DATABASE_PASSWORD_FILE.reveal(),
    max: 1,
    connect_timeout: CONNECT_TIMEOUT_S,
    ssl:
      DATABASE_CA_FILE === undefined
        ? false
        : { ca: readFileSync(DATABASE_CA_FILE), rejectUnauthorized: true },
    connection: { application_name: name, lock_timeout: 30_000 },
    onnotice: () => {},
  });
}
