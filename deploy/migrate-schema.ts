import { join } from "node:path";
import { migrate } from "#kit/database/migrate.ts";
import { type Sql, transaction } from "#kit/database/postgres.ts";
import type { ServiceDatabase } from "./service-databases.ts";

export interface SchemaGoal {
  /** A connection of the database's owner. */
  owner: Sql;
  wanted: ServiceDatabase;
  /** Contains `<service>/migrations`. */
  root: string;
  log?: (message: string) => void;
}

/**
 * Migrates the first schema of the search path, and grants the service's role access. Idempotent and safe to run concurrently.
 * @returns the names of the migrations that ran. @throws if a migration fails. Earlier ones stay.
 */
export async function migrateSchema({ owner, wanted, root, log }: SchemaGoal): Promise<string[]> {
  const { serviceRole, tablePrivileges } = wanted;
  const [current] = await owner<{ schema: string | null }[]>`select quote_ident(current_schema()) as schema`;
  const schema = current?.schema ?? "public";
  await grant(
    owner,
    `
    revoke all on schema ${schema} from public;
    grant usage on schema ${schema} to ${serviceRole};
    alter default privileges in schema ${schema} grant ${tablePrivileges} on tables to ${serviceRole};
    alter default privileges in schema ${schema} grant usage, select on sequences to ${serviceRole};
  `,
  );
  const directory = join(root, wanted.service, "migrations");
  const ran = await migrate({ sql: owner, directory, ...(log === undefined ? {} : { log }) });
  await grant(
    owner,
    `
    revoke all on schema_migrations from ${serviceRole};
    grant select on schema_migrations to ${serviceRole};
  `,
  );
  return ran;
}

/** PostgreSQL cannot alter the privileges of one object concurrently. */
const ADVISORY_LOCK = 7_031_003;

/** DDL takes no parameters. Role names are constants, the schema's is quoted. */
async function grant(owner: Sql, statements: string): Promise<void> {
  await transaction(owner, async (tx) => {
    await tx`select pg_advisory_xact_lock(${ADVISORY_LOCK})`;
    await tx.unsafe(statements);
  });
}
