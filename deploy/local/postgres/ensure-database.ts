import { join } from "node:path";
import { openPool, type Sql, transaction } from "../../../service-kit/postgres.ts";
import { migrateSchema } from "../../migrate-schema.ts";
import { SERVICE_DATABASES, type ServiceDatabase } from "../../service-databases.ts";
import { keptSecret, randomPassword } from "../private-file.ts";
import type { PostgresServer } from "./embedded-postgres.ts";

/** PostgreSQL cannot alter a role concurrently, and test runs may share a server. */
const ADVISORY_LOCK = 7_031_002;

/** @param login Default: the superuser. */
export function connectTo(
  server: PostgresServer,
  database: string,
  login?: { username: string; password: string },
): Sql {
  const { host, port, username, password } = { ...server, ...login };
  return openPool({
    url: `postgres://${encodeURIComponent(username)}@${host}:${port}/${database}`,
    maxConnections: 3,
    connectTimeoutMs: 10_000,
    maxWaitMs: 60_000,
    maxWaiting: 10_000,
    driver: { password, onnotice: () => {} },
  });
}

export function servicePasswordFile(secrets: string, { database }: ServiceDatabase): string {
  return join(secrets, `db-${database}-password`);
}

/**
 * Sets the roles' passwords to those in `secrets`, and creates missing ones.
 * @param root contains `<service>/migrations`. @throws if a migration fails.
 */
export async function provision(server: PostgresServer, secrets: string, root: string): Promise<void> {
  const admin = connectTo(server, "postgres");
  try {
    await admin.unsafe("revoke all on database postgres from public");
    await admin.unsafe("revoke all on database template1 from public");
    await Promise.all(
      SERVICE_DATABASES.map(async (wanted) => {
        const name = wanted.database;
        const owner = await keptSecret(join(secrets, `db-${name}-owner-password`), randomPassword);
        const service = await keptSecret(servicePasswordFile(secrets, wanted), randomPassword);
        await ensureDatabase({ admin, server, wanted, name, passwords: { owner, service }, root });
      }),
    );
  } finally {
    await admin.end({ timeout: 1 });
  }
}

export interface DatabaseGoal {
  /** A superuser's connection to another database of the server. */
  admin: Sql;
  server: PostgresServer;
  wanted: ServiceDatabase;
  /** Lower-case letters, digits and `_`, because it is not quoted. */
  name: string;
  /** Letters, digits, `-` and `_`, because they are not escaped. */
  passwords: { owner: string; service: string };
  /** Contains `<service>/migrations`. */
  root: string;
}

/** Creates and migrates a database and sets the roles' passwords. @throws if a migration fails. */
export async function ensureDatabase(goal: DatabaseGoal): Promise<void> {
  const { admin, server, wanted, name, passwords, root } = goal;
  await ensureRoles(goal);
  const [existing] = await admin`select from pg_database where datname = ${name}`;
  if (!existing) await admin.unsafe(`create database ${name} owner ${wanted.ownerRole} template template0`);
  await closeToOthers(admin, name, wanted);

  const owner = connectTo(server, name, { username: wanted.ownerRole, password: passwords.owner });
  try {
    await migrateSchema({ owner, wanted, root });
  } finally {
    await owner.end({ timeout: 1 });
  }
}

async function ensureRoles({ admin, wanted, passwords }: DatabaseGoal): Promise<void> {
  const rights = "login nosuperuser nocreatedb nocreaterole noinherit noreplication nobypassrls";
  await transaction(admin, async (tx) => {
    await tx`select pg_advisory_xact_lock(${ADVISORY_LOCK})`;
    // Passwords must not be logged.
    await tx.unsafe("set local log_statement = none; set local log_min_error_statement = panic");
    for (const [role, password] of [
      [wanted.ownerRole, passwords.owner],
      [wanted.serviceRole, passwords.service],
    ] as const) {
      const [existing] = await tx`select from pg_roles where rolname = ${role}`;
      // DDL takes no parameters. Role names are constants, and passwords have no quotes.
      await tx.unsafe(`${existing ? "alter" : "create"} role ${role} ${rights} password '${password}'`);
    }
  });
}

/** Only the service's roles may connect. A copied database does not inherit this. */
export async function closeToOthers(admin: Sql, name: string, wanted: ServiceDatabase): Promise<void> {
  await admin.unsafe(`revoke all on database ${name} from public`);
  await admin.unsafe(`grant connect on database ${name} to ${wanted.serviceRole}`);
}
