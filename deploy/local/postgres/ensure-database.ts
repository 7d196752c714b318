import { openPool, type Sql, transaction } from "../../../service-kit/postgres.ts";
import { migrateSchema } from "../../migrate-schema.ts";
import type { ServiceDatabase } from "../service-databases.ts";
import type { PostgresServer } from "./embedded-postgres.ts";
import { scramVerifier } from "./scram-verifier.ts";

/** Arbitrary: one at a time where several test runs share a server, which cannot alter one role from two sides. */
const ADVISORY_LOCK = 7_031_002;

/** The passwords of a service's two roles. */
export interface RolePasswords {
  owner: string;
  service: string;
}

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

/** Makes the two roles of a service if they are missing, and sets what they may do and their passwords. */
export async function ensureRoles(
  admin: Sql,
  wanted: ServiceDatabase,
  passwords: RolePasswords,
): Promise<void> {
  const roles = [
    { role: wanted.ownerRole, password: passwords.owner },
    { role: wanted.serviceRole, password: passwords.service },
  ];
  await transaction(admin, async (tx) => {
    await tx`select pg_advisory_xact_lock(${ADVISORY_LOCK})`;
    for (const { role, password } of roles) {
      const [existing] = await tx`select from pg_roles where rolname = ${role}`;
      // DDL takes no parameters. Role names are constants of ours, a verifier has no quotes in it.
      await tx.unsafe(
        `${existing ? "alter" : "create"} role ${role} login nosuperuser nocreatedb nocreaterole noinherit ` +
          `noreplication nobypassrls password '${scramVerifier(password)}'`,
      );
    }
  });
}

/** Where and how to make a service's database. */
export interface DatabaseGoal {
  /** A superuser's connection to another database of the server. */
  admin: Sql;
  server: PostgresServer;
  wanted: ServiceDatabase;
  /** The service's usual one, or a test's. Lower-case letters, digits, `_`. */
  name: string;
  ownerPassword: string;
  /** The repository's folder, with `<service>/migrations` in it. */
  root: string;
}

/**
 * Brings a database of a service to its newest schema, making it first if it is missing. Only its two roles get in, and
 * only the owner may change the schema. The roles must be there.
 *
 * @throws if a migration fails.
 */
export async function ensureDatabase({
  admin,
  server,
  wanted,
  name,
  ownerPassword,
  root,
}: DatabaseGoal): Promise<void> {
  const { ownerRole } = wanted;
  await createDatabase(admin, name, `owner ${ownerRole} template template0`);
  await closeToOthers(admin, name, wanted);

  const owner = connectTo(server, name, { username: ownerRole, password: ownerPassword });
  try {
    await migrateSchema({ owner, wanted, root });
  } finally {
    await owner.end({ timeout: 1 });
  }
}

/** Makes a database unless there is one of that name. */
export async function createDatabase(admin: Sql, name: string, options: string): Promise<void> {
  const [existing] = await admin`select from pg_database where datname = ${name}`;
  if (!existing) await admin.unsafe(`create database ${name} ${options}`);
}

/** Lets only a service's two roles connect to a database. A copied database does not inherit this. */
export async function closeToOthers(admin: Sql, name: string, wanted: ServiceDatabase): Promise<void> {
  await admin.unsafe(`revoke all on database ${name} from public`);
  await admin.unsafe(`grant connect on database ${name} to ${wanted.serviceRole}`);
}
