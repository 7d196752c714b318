import { readFileSync } from "node:fs";
import { withRoleOf } from "#kit/config/databases-file.ts";
import { openPool, type Sql } from "#kit/database/postgres.ts";
import { partConnection } from "#token-service/parts/parts-file.ts";
import type { ServiceDatabase } from "../service-databases.ts";
import type { SchemaConfig } from "./schema-config.ts";

const CONNECT_TIMEOUT_MS = 10_000;

/** The service has one, and each further part of the users of token-service, or log of audit-service, too. */
export function connectForSchemas(
  config: SchemaConfig,
  { database }: ServiceDatabase,
  program: string,
): { name: string; sql: Sql }[] {
  const parts = database === "token" ? (config.PARTS_FILE ?? []) : [];
  const logs = database === "audit" ? (config.LOGS_FILE ?? []) : [];
  const further = [
    ...parts.map((part) => ({
      name: `${database}, part ${part.number}`,
      ...partConnection(config.DATABASE_URL, part),
    })),
    ...logs.map(({ number, url }) => ({
      name: `${database}, log ${number}`,
      url: withRoleOf(config.DATABASE_URL, url),
      session: {},
    })),
  ];
  return [{ name: database, url: config.DATABASE_URL, session: {} }, ...further].map(
    ({ name, url, session }) => ({
      name,
      sql: connectForSchema(config, url, { application_name: `${program} ${database}`, ...session }),
    }),
  );
}

/** Has no silence limit, because a migration may rewrite a table. */
function connectForSchema(config: SchemaConfig, url: string, session: Record<string, string | number>): Sql {
  const { DATABASE_PASSWORD_FILE, DATABASE_CA_FILE } = config;
  return openPool({
    url,
    ca: DATABASE_CA_FILE === undefined ? undefined : readFileSync(DATABASE_CA_FILE),
    maxConnections: 1,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    maxWaitMs: CONNECT_TIMEOUT_MS,
    maxWaiting: 1,
    driver: {
      password: DATABASE_PASSWORD_FILE.reveal(),
      connection: { lock_timeout: 30_000, ...session },
      onnotice: () => {},
    },
  });
}
