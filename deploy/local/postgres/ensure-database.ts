import { join } from "node:path";
import { openPool, type Sql, transaction } from "../../../service-kit/postgres.ts";
import { migrateSchema } from "../../migrate-schema.ts";
import { SERVICE_DATABASES, type ServiceDatabase } from "../../service-databases.ts";
import { keptSecret, randomPassword } from "../private-file.ts";
import type { PostgresServer } from "./embedded-postgres.ts";

/** Arbitrary: one at a time where several test runs share a server, which cannot alter one role from two sides. */
const ADVISORY_LOCK = 7_031_002;

/** A few connections to one database of a server, as its superuser unless told otherwise. End them with `end()`. */
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

/** The file with the password a service connects with. */
export function servicePasswordFile(secrets: string, { database }: ServiceDatabase): string {
  return join(secrets, `db-${database}-password`);
}

/**
 * Brings a server of our own to what the services need: their databases, roles and newest schemas. Data stays; the
 * roles' passwords become what the files in `secrets` say, where missing ones are made.
 *
 * @param root the repository's folder, with `<service>/migrations` in it.
 * @throws if a migration fails.
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

/** Where and how to make a service's database. */
export interface DatabaseGoal {
  /** A superuser's connection to another database of the server. */
  admin: Sql;
  server: PostgresServer;
  wanted: ServiceDatabase;
  /** The service's usual one, or a test's. Lower-case letters, digits, `_`. */
  name: string;
  /** Of the service's two roles. Letters, digits, `-` and `_`. */
  passwords: { owner: string; service: string };
  /** The repository's folder, with `<service>/migrations` in it. */
  root: string;
}

/**
 * Brings a database of a service to its newest schema, making it and its two roles first if they are missing. Only
 * these get in, and only the owner may change the schema. Their passwords become what is said.
 *
 * @throws if a migration fails.
 */
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
    // The statements below have passwords in them: they are not for the server's log.
    await tx.unsafe("set local log_statement = none; set local log_min_error_statement = panic");
    for (const [role, password] of [
      [wanted.ownerRole, passwords.owner],
      [wanted.serviceRole, passwords.service],
    ] as const) {
      const [existing] = await tx`select from pg_roles where rolname = ${role}`;
      // DDL takes no parameters. Role names are constants of ours, the passwords have no quotes in them.
      await tx.unsafe(`${existing ? "alter" : "create"} role ${role} ${rights} password '${password}'`);
    }
  });
}

/** Lets only a service's two roles connect to a database. A copied database does not inherit this. */
export async function closeToOthers(admin: Sql, name: string, wanted: ServiceDatabase): Promise<void> {
  await admin.unsafe(`revoke all on database ${name} from public`);
  await admin.unsafe(`grant connect on database ${name} to ${wanted.serviceRole}`);
}
