import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ConfigError } from "#kit/config/config.ts";
import { OlderDatabaseError } from "#kit/database/migrate.ts";
import { openPool, type Sql, transaction } from "#kit/database/postgres.ts";
import { migrateSchema } from "../../migrate-schema.ts";
import { SERVICE_DATABASES, type ServiceDatabase } from "../../service-databases.ts";
import { LaunchError } from "../launch-error.ts";
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
  const { host, port, username, password, caFile } = { ...server, ...login };
  return openPool({
    url: databaseUrl({ host, port }, username, database),
    ...(caFile !== undefined && { ca: readFileSync(caFile) }),
    maxConnections: 3,
    connectTimeoutMs: 10_000,
    maxWaitMs: 60_000,
    maxWaiting: 10_000,
    // As the services: without statistics of a new table a read of 1 ms is compiled for seconds, where the server has LLVM.
    driver: { password, connection: { jit: "off" }, onnotice: () => {} },
  });
}

export function databaseUrl(
  { host, port }: Pick<PostgresServer, "host" | "port">,
  role: string,
  database: string,
): string {
  const place = host.includes(":") ? `[${host}]` : host;
  return `postgres://${encodeURIComponent(role)}@${place}:${port}/${encodeURIComponent(database)}`;
}

export function servicePasswordFile(secrets: string, { database }: ServiceDatabase): string {
  return join(secrets, `db-${database}-password`);
}

/**
 * Sets the roles' passwords to those in `secrets`, and creates missing ones.
 * @param root contains `<service>/migrations`. @throws if a migration fails.
 */
export async function provision(
  server: PostgresServer,
  secrets: string,
  root: string,
  { isOwn = true } = {},
): Promise<void> {
  const admin = connectTo(server, server.database ?? "postgres");
  try {
    if (isOwn) {
      await admin.unsafe("revoke all on database postgres from public");
      await admin.unsafe("revoke all on database template1 from public");
    }
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
  /** To another database of the server, of a superuser or a role with CREATEROLE and CREATEDB. */
  admin: Sql;
  server: PostgresServer;
  wanted: ServiceDatabase;
  /** Lower-case letters, digits and `_`, because it is not quoted. */
  name: string;
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
  } catch (error) {
    if (error instanceof ConfigError) throw new LaunchError(error.message, { exitCode: 78, cause: error });
    if (!(error instanceof OlderDatabaseError)) throw error;
    const message = `The databases of this home cannot be used: ${error.message}. Or set GATEHOUSE_HOME to a new directory.`;
    throw new LaunchError(message, { cause: error });
  } finally {
    await owner.end({ timeout: 1 });
  }
}

async function ensureRoles({ admin, wanted, passwords }: DatabaseGoal): Promise<void> {
  const rights = "login nosuperuser nocreatedb nocreaterole noreplication nobypassrls";
  await transaction(admin, async (tx) => {
    await tx`select pg_advisory_xact_lock(${ADVISORY_LOCK})`;
    for (const [role, password, inherits] of [
      // Until PostgreSQL 15 it has the rights of the database's owner by inheritance.
      [wanted.ownerRole, passwords.owner, "inherit"],
      [wanted.serviceRole, passwords.service, "noinherit"],
    ] as const) {
      const [existing] = await tx`select from pg_roles where rolname = ${role}`;
      const statement = existing ? `alter role ${role}` : `create role ${role} ${rights} ${inherits}`;
      // DDL takes no parameters. Role names are constants.
      await tx.unsafe(`${statement} password '${scramVerifier(password)}'`);
    }
    // A role that is no superuser can make a database only for a role whose member it is.
    const [self] = await tx`select rolsuper as "isSuperuser" from pg_roles where rolname = current_user`;
    if (self?.isSuperuser !== true) await tx.unsafe(`grant ${wanted.ownerRole} to current_user`);
  });
}

const SCRAM_ITERATIONS = 4_096;

/** What PostgreSQL stores (RFC 5803): a server that logs its statements logs no password. */
function scramVerifier(password: string): string {
  const salt = randomBytes(16);
  const salted = pbkdf2Sync(password, salt, SCRAM_ITERATIONS, 32, "sha256");
  const hmac = (text: string) => createHmac("sha256", salted).update(text).digest();
  const storedKey = createHash("sha256").update(hmac("Client Key")).digest("base64");
  const serverKey = hmac("Server Key").toString("base64");
  return `SCRAM-SHA-256$${SCRAM_ITERATIONS}:${salt.toString("base64")}$${storedKey}:${serverKey}`;
}

/** Only the service's roles may connect. A copied database does not inherit this. */
export async function closeToOthers(admin: Sql, name: string, wanted: ServiceDatabase): Promise<void> {
  await admin.unsafe(`revoke all on database ${name} from public`);
  await admin.unsafe(`grant connect on database ${name} to ${wanted.serviceRole}`);
}
