import { join } from "node:path";
import { migrate } from "../service-kit/migrate.ts";
import { type Sql, transaction } from "../service-kit/postgres.ts";
import type { ServiceDatabase } from "./service-databases.ts";

/** A service's database as its owner, and where the migrations are. */
export interface SchemaGoal {
  /** A connection of the database's owner. */
  owner: Sql;
  wanted: ServiceDatabase;
  /** The repository's folder, with `<service>/migrations` in it. */
  root: string;
  log?: (message: string) => void;
}

/**
 * Brings a service's schema to the newest version and says what the service's own role may do in it: use its tables,
 * and read which migrations have run. May be repeated, and may run several times at once.
 *
 * @returns the names of the migrations that ran.
 * @throws if a migration fails; those before it stay.
 */
export async function migrateSchema({ owner, wanted, root, log }: SchemaGoal): Promise<string[]> {
  const { serviceRole, tablePrivileges } = wanted;
  await grant(
    owner,
    `
    revoke all on schema public from public;
    grant usage on schema public to ${serviceRole};
    alter default privileges in schema public grant ${tablePrivileges} on tables to ${serviceRole};
    alter default privileges in schema public grant usage, select on sequences to ${serviceRole};
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

/** Arbitrary: PostgreSQL cannot alter the privileges of one object from two sides at once. */
const ADVISORY_LOCK = 7_031_003;

/** DDL takes no parameters; role names are constants of ours. */
async function grant(owner: Sql, statements: string): Promise<void> {
  await transaction(owner, async (tx) => {
    await tx`select pg_advisory_xact_lock(${ADVISORY_LOCK})`;
    await tx.unsafe(statements);
  });
}
